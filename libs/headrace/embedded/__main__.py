"""`python -m headrace.embedded up | down | status`; `supervise` is the process that `up` starts."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run the verb. The supervisor is told apart first: it imports no command line."""
    if sys.argv[1:2] == ["supervise"]:
        return _supervise(Path(sys.argv[2]), sys.argv[3:])
    from headrace.cli.app import main as run

    return run(sys.argv[1:])


def _supervise(data_dir: Path, options: list[str]) -> int:
    from headrace.embedded.daemon import supervise

    def on_ready(url: str) -> None:
        if "--announce" in options:
            from headrace.embedded import settings
            from headrace.embedded.announcement import announce
            from headrace.embedded.layout import Layout

            layout = Layout(data_dir)
            print(announce(layout, settings.read(layout), url), flush=True)

    return supervise(data_dir, on_ready)


if __name__ == "__main__":
    sys.exit(main())
