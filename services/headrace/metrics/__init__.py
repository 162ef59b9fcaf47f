"""Metrics: accounts for what was used, shows the platform's numbers, and keeps the streams of the bus."""
