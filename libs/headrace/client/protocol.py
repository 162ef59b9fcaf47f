"""What client and gateway agree on beside the models: headers, and lines of streams."""

from __future__ import annotations

AFTER_POSITION = "Headrace-After-Position"  # of a read: show nothing older than this

POSITION = "Headrace-Position"  # of an answer that is a list: the log's, at which it holds

LOGS_HEARTBEAT = b"\n"  # a line of a job's output that only says that the gateway is there
LOGS_END = b"null\n"  # the last line; without it the connection broke
