"""What the gateway costs: `python -m tests.bench.gateway`."""
