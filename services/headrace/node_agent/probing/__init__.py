"""How fast the network is to a few other nodes, measured when a node joins and once a week.

Rule: whom a node may ask is said by placement, which signs a pass for it; who is asked serves nobody
without one, proves that the pass is its bearer's, and does so for one at a time and seldom. A probe
takes at most a second.
"""

PROBE_S_MAX = 1.0  # all of a probe
STREAM_S = 0.5  # of which so long something is sent
LINE_BYTES_MAX = 8_192  # of what the two say to each other before that
CHUNK_BYTES = 1_048_576


def context_of(prober: str, peer: str) -> bytes:
    """What a challenge between these two is sealed for."""
    return f"probe:{prober}:{peer}".encode()
