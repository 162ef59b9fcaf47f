"""The output of a worker's processes: files the processes write to directly.

Rule: offsets into a file stay true for ever. What is beyond the limit is given back to the file
system from behind the beginning on, as a hole: the first bytes and the latest ones are kept.
"""

import os
from collections.abc import Iterable

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.protocol import OUTPUT_HEAD_BYTES

TAIL_BYTES = 4096

_BLOCK_BYTES = 4096


class Output:
    """The output files of one attempt in its `folder`, `<process>.log` each, with their limit. `exhausted` are
    words that say that a device has no memory left.
    """

    def __init__(self, bytes_max: int, folder: str = ".", exhausted: Iterable[str] = ()) -> None:
        self._exhausted = tuple(exhausted)
        self._folder = folder
        self._head = min(OUTPUT_HEAD_BYTES, bytes_max // 4 // _BLOCK_BYTES * _BLOCK_BYTES)
        self._bytes_max = bytes_max
        self._files: dict[int, int] = {}
        self._dropped_to: dict[int, int] = {}

    def of(self, process: int) -> int:
        """The descriptor that this process writes to."""
        if process not in self._files:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._files[process] = os.open(f"{self._folder}/{process}.log", flags, 0o600)
            self._dropped_to[process] = self._head
        return self._files[process]

    def lacks_device_memory(self, process: int) -> bool:
        """Whether the last that the process wrote is that a device has no memory left."""
        try:
            file = os.open(f"{self._folder}/{process}.log", os.O_RDONLY)
        except OSError:
            return False
        try:
            at = max(0, os.fstat(file).st_size - TAIL_BYTES)
            said = os.pread(file, TAIL_BYTES, at)
        finally:
            os.close(file)
        return any(each.encode() in said for each in self._exhausted)

    def trim(self) -> None:
        """Drop what is beyond the limit, oldest first but for the beginning."""
        for process, descriptor in self._files.items():
            size, start = os.fstat(descriptor).st_size, self._dropped_to[process]
            if self._head + size - start <= self._bytes_max:
                continue
            end = (size - self._bytes_max // 2) // _BLOCK_BYTES * _BLOCK_BYTES
            if kernel.discard(descriptor, start, end - start):
                self._dropped_to[process] = end
            else:  # no holes on this file system: start over rather than fill the disk
                os.ftruncate(descriptor, 0)
                self._dropped_to[process] = self._head

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
