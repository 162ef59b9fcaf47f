"""What of a folder stays at home: `.gitignore` and `.headraceignore`, at every level.

Rule: git's, as `git status` would have it in the same place: the rules of a deeper folder come
first, later lines before earlier ones, and what is in an ignored folder cannot be taken back. In one
folder `.headraceignore` comes after `.gitignore`. A repository's own data never travels.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILES = (".gitignore", ".headraceignore")
REPOSITORY = ".git"


class Rules(NamedTuple):
    """The rules of one folder, which know paths from there: below the folder that travels without
    the first `cut` characters, above it with `before` in front.
    """

    spec: GitIgnoreSpec
    cut: int = 0
    before: str = ""


def rules_around(folder: Path) -> tuple[Rules, ...]:
    """Those of the folders above, up to the repository's, when the folder is part of one."""
    found: list[Rules] = []
    if (folder / REPOSITORY).exists():
        return ()
    for above in folder.parents:
        rules = rules_in(above)
        if rules is not None:
            found.append(Rules(rules, before=f"{folder.relative_to(above).as_posix()}/"))
        if (above / REPOSITORY).exists():
            return tuple(reversed(found))
    return ()


def rules_in(folder: Path) -> GitIgnoreSpec | None:
    """What the files in this one folder say. Raises `OSError`."""
    lines: list[str] = []
    for name in FILES:
        path = folder / name
        if path.is_file():
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return None
    from pathspec import GitIgnoreSpec  # costs a client without such files nothing

    return GitIgnoreSpec.from_lines(lines)


def is_ignored(path: str, rules: tuple[Rules, ...]) -> bool:
    """Whether the path below the folder (a folder's ends in `/`) stays at home."""
    for spec, cut, before in reversed(rules):
        said = spec.check_file(before + path[cut:]).include
        if said is not None:
            return said
    return False
