"""The process that `headrace up` starts or becomes: `python -m headrace.cli.supervising DATA_DIR`.

Rule: it imports no command line, because it stays for as long as the platform does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.embedded import settings
from headrace.embedded.announcement import announce
from headrace.embedded.daemon import ANNOUNCE, supervise
from headrace.embedded.layout import Layout


def main(data_dir: Path, *, is_announced: bool) -> int:
    """Run the platform until a signal; the exit status. `is_announced`: say when it is up."""

    def on_ready(url: str) -> None:
        from headrace.cli.first_nodes import join_line_of
        from headrace.cli.first_project import ensure_first_project

        layout = Layout(data_dir)
        ensure_first_project(layout, url)
        line = join_line_of(layout, url)
        print(announce(layout, settings.read(layout), url, line), flush=True)

    def new_token(url: str, nodes: int) -> str:
        from headrace.cli.first_nodes import token_for

        return token_for(Layout(data_dir), url, nodes)

    return supervise(data_dir, new_token, on_ready if is_announced else lambda _: None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), is_announced=ANNOUNCE in sys.argv[2:]))
