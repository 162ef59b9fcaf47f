"""What a worker finds in its attempt's folder before it starts: a list of hosts, programs."""

from collections.abc import Mapping

from headrace.node_agent.supervision.beneath import Folder


def put_files(attempt: Folder, files: Mapping[str, tuple[int, str]]) -> list[str]:
    """Write each (mode and content, by path in this folder), and the folders they are in; all paths
    that there are now. Raises `OSError`.
    """
    paths: list[str] = []
    for path, (mode, content) in files.items():
        paths += attempt.make_way(path)
        attempt.write(path, content.encode(), mode)
        paths.append(path)
    return paths
