"""Measures a whole platform on this machine; `make bench` prints the figures."""
