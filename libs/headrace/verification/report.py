"""What a verification found, for people and as JSON."""

from __future__ import annotations

import msgspec

from headrace.verification.violation import Violation


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The log from `first` to `last`, whose hash is `head` (hex). `by_other_versions` counts decisions of other code, which
    this code cannot judge. `violations` holds the first ones, `violations_total` counts all.
    """

    first: int
    last: int
    head: str
    gaps: int
    chain_intact: bool
    violations_total: int
    violations: tuple[Violation, ...]
    decisions: int
    reproduced: int
    by_other_versions: dict[str, int]
    took_ms: int

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations_total and self.chain_intact and not self.gaps

    def __str__(self) -> str:
        broken = sum(1 for v in self.violations if v.invariant not in {"I8", "I14", "I17"})
        beside = sum(1 for v in self.violations if v.invariant == "I17")
        again = f"{grouped(self.reproduced)} of {grouped(self.decisions)}"
        parts = [
            "chain intact" if self.chain_intact else "chain BROKEN",
            f"{grouped(self.gaps)} gaps",
            "the log's invariants hold" if not broken else f"{broken} INVARIANTS BROKEN",
            f"{again} decisions reproduced byte for byte",
        ]
        if beside:
            parts.insert(2, f"{beside} DIFFERENCES BESIDE THE LOG")
        took = f"({self.took_ms // 1000}.{self.took_ms % 1000 // 100} s)"
        between = f"{grouped(self.first)} .. {grouped(self.last)}"
        lines = [f"verified {between}: {', '.join(parts)}  {took}"]
        for version, count in sorted(self.by_other_versions.items()):
            lines.append(f"  {grouped(count)} decisions were made by other code: {version}")
        lines.extend(f"  {violation}" for violation in self.violations)
        unsaid = self.violations_total - len(self.violations)
        if unsaid:
            lines.append(f"  and {grouped(unsaid)} more")
        if self.last:
            noted = f"--noted {self.last}:{self.head}"
            lines.append(
                "  a log cut off together with all that is kept beside it looks whole; note elsewhere,"
                f" for later: {noted}"
            )
        return "\n".join(lines)


def grouped(number: int) -> str:
    """`2117` as `2 117`."""
    return f"{number:,}".replace(",", " ")
