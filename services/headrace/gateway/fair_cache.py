"""What a gateway remembers of many people, within a bound that none of them can use up.

Rule: when it is full, the oldest entry of whoever has the most goes. So entries of somebody who has
few stay, however many others make.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class FairCache(Generic[T]):
    """At most `most` entries by key; each is its owner's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[str, tuple[str, T]] = {}
        self._keys: dict[str, dict[str, None]] = {}  # by owner, the oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: str, entry: T, owner: str) -> None:
        """Remember it, and forget another one if there are too many."""
        self.pop(key)
        self._entries[key] = owner, entry
        self._keys.setdefault(owner, {})[key] = None
        if len(self._entries) > self._most:
            has_most = max(self._keys.values(), key=len)
            self.pop(next(iter(has_most)))

    def get(self, key: str) -> T | None:
        """The entry, if it is remembered."""
        found = self._entries.get(key)
        return found[1] if found is not None else None

    def pop(self, key: str) -> T | None:
        """Forget it; what it was."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        owner, entry = found
        own = self._keys[owner]
        del own[key]
        if not own:
            del self._keys[owner]
        return entry
