"""Finds operations on paths, which whoever can write a folder on the way can lead elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

OF_OS = frozenset(
    [
        "open",
        "rename",
        "renames",
        "replace",
        "remove",
        "unlink",
        "rmdir",
        "removedirs",
        "mkdir",
        "makedirs",
        "chown",
        "lchown",
        "chmod",
        "lchmod",
        "link",
        "symlink",
        "readlink",
        "stat",
        "lstat",
        "listdir",
        "scandir",
        "walk",
        "utime",
        "truncate",
        "mkfifo",
        "mknod",
        "access",
        "setxattr",
        "getxattr",
        "chflags",
    ]
)  # what acts on a descriptor (fchown, fstat, …) is not among them
OF_SHUTIL = frozenset(
    ["rmtree", "copy", "copy2", "copyfile", "copytree", "copymode", "copystat", "move", "chown"]
)
OF_PATHS = frozenset(
    [
        "write_text",
        "write_bytes",
        "read_text",
        "read_bytes",
        "open",
        "mkdir",
        "unlink",
        "rename",
        "rmdir",
        "chmod",
        "lchmod",
        "touch",
        "symlink_to",
        "hardlink_to",
        "iterdir",
        "glob",
        "rglob",
        "exists",
        "is_dir",
        "is_file",
        "is_symlink",
        "stat",
        "lstat",
        "resolve",
        "samefile",
        "owner",
        "group",
    ]
)
OF_KERNEL = frozenset({"read", "write"})  # of `supervision.kernel`
OF_OS_PATH = frozenset(
    [
        "exists",
        "lexists",
        "isdir",
        "isfile",
        "islink",
        "realpath",
        "getsize",
        "getmtime",
        "samefile",
    ]
)


def path_operations(tree: ast.Module) -> Iterator[str]:
    """Every call that follows a path of the machine, as it is written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "os.path"):
            yield f"from {node.module} import"
        if isinstance(node, ast.Call) and (name := _operation(node.func)):
            yield name


def _operation(called: ast.expr) -> str:
    if isinstance(called, ast.Name):
        return "open" if called.id == "open" else ""
    if not isinstance(called, ast.Attribute):
        return ""
    of, name = ast.unparse(called.value), called.attr
    known = {"os": OF_OS, "shutil": OF_SHUTIL, "kernel": OF_KERNEL, "os.path": OF_OS_PATH}
    if of in known:
        return f"{of}.{name}" if name in known[of] else ""
    return f".{name}" if name in OF_PATHS else ""
