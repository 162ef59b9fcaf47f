"""Proofs that decisions depend on the log alone: not on an order, a hash seed, or a processor."""
