"""What a worker finds in its attempt's folder before it starts: a list of hosts, programs."""

import os

from headrace.node_agent.supervision import kernel


def put_files(files: dict[str, tuple[int, str]]) -> list[str]:
    """Write each (mode and content, by path in this folder), and the folders they are in; all paths
    that there are now. Raises `OSError`.
    """
    paths: list[str] = []
    for path, (mode, content) in files.items():
        folder = os.path.dirname(path)
        if folder and folder not in paths:
            os.mkdir(folder)
            paths.append(folder)
        kernel.write(path, content.encode())
        os.chmod(path, mode)
        paths.append(path)
    return paths
