"""Where one process of a gang stands: all that any framework's environment is made from.

Rule: what is in here is the same on every node of the gang but `node_rank`, `local` and `folder`.
"""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The process `local` of `processes` on node `node_rank`.

    By node, in the order of ranks: `names`, `addresses`, the first of its `ports` (one for each of
    its processes) and its `slots` (GPUs, at least 1); where roles differ, how many processes it
    `counts`, and of which of the `roles` it is. `port` is where rank 0 listens for its peers.
    `devices` and `cores` (0: as many as the node has) are the node's. `folder` is the attempt's.
    An elastic gang has between `nodes_min` and `nodes_max` nodes; for others both are 0.
    """

    job: str
    attempt: int
    folder: str
    names: tuple[str, ...] = ("localhost",)
    addresses: tuple[str, ...] = ("127.0.0.1",)
    ports: tuple[int, ...] = (0,)
    slots: tuple[int, ...] = (1,)
    port: int = 0
    node_rank: int = 0
    processes: int = 1
    local: int = 0
    devices: int = 0
    cores: int = 0
    nodes_min: int = 0
    nodes_max: int = 0
    counts: tuple[int, ...] = ()
    roles: tuple[str, ...] = ()
    role: str = ""

    @property
    def nodes(self) -> int:
        """How many nodes the gang has."""
        return len(self.addresses)

    @property
    def world(self) -> int:
        """How many processes Headrace starts in all."""
        return sum(self.counts) if self.counts else self.nodes * self.processes

    @property
    def rank(self) -> int:
        """Which of all processes this is."""
        if self.counts:
            return sum(self.counts[: self.node_rank]) + self.local
        return self.node_rank * self.processes + self.local

    @property
    def role_rank(self) -> int:
        """Which of its role's processes this is; without roles, which of all."""
        if not self.roles:
            return self.rank
        before = zip(self.roles[: self.node_rank], self.counts, strict=False)
        return sum(count for role, count in before if role == self.role) + self.local

    @property
    def is_elastic(self) -> bool:
        """Whether nodes come and go: then nobody can be told who all the others are."""
        return self.nodes_max > 0

    @property
    def shares_a_machine(self) -> bool:
        """Whether several of the gang's nodes are one machine, as simulated ones are."""
        return len(set(self.addresses)) < self.nodes

    @property
    def head(self) -> str:
        """The address of rank 0's node."""
        return self.addresses[0]

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Of every process in the order of ranks, the address and port it may listen at."""
        return tuple(point for points in self._by_node() for point in points)

    @property
    def endpoints_of_roles(self) -> dict[str, tuple[str, ...]]:
        """The same by role; under no name in a gang without."""
        found: dict[str, tuple[str, ...]] = {}
        roles = self.roles or ("",) * self.nodes
        for role, points in zip(roles, self._by_node(), strict=True):
            found[role] = found.get(role, ()) + points
        return found

    def _by_node(self) -> list[tuple[str, ...]]:
        counts = self.counts or (self.processes,) * self.nodes
        listening = zip(self.addresses, self.ports, counts, strict=True)
        return [tuple(f"{at}:{port + n}" for n in range(count)) for at, port, count in listening]

    @property
    def hosts(self) -> str:
        """One line per node, as /etc/hosts has them: its name, and what its worker is called. Who
        the others of an elastic gang are changes, and only nodes keep their names.
        """
        called = [[] if self.is_elastic else [f"rank-{rank}"] for rank in range(self.nodes)]
        for rank, role in enumerate(self.roles):
            called[rank].append(f"{role}-{self.roles[:rank].count(role)}")
        lines = zip(self.addresses, self.names, called, strict=True)
        return "".join(f"{at} {' '.join([name, *others])}\n" for at, name, others in lines)

    @property
    def hostfile(self) -> str:
        """One line per node: its name and its slots. One node alone is reached as itself."""
        names = self.names if self.nodes > 1 else ("localhost",)
        named = zip(names, self.slots, strict=True)
        return "".join(f"{name} slots={slots}\n" for name, slots in named)

    @property
    def hostfile_path(self) -> str:
        """Where `hostfile` is to be read."""
        return f"{self.folder}/{HOSTFILE}"


HOSTFILE = "hostfile"  # in the attempt's folder
HOSTS = "hosts"
