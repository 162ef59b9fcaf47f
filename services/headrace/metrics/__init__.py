"""Metrics: accounts for what was used, and shows the platform's numbers to Prometheus."""
