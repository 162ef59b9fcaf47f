"""Placement on the published trace of a real cluster, against a published method on equal terms."""
