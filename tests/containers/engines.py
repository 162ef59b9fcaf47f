"""A container engine of the tests' own: dockerd in a folder, and an image made of busybox.

Rule: nothing is fetched. It uses no network and changes nothing of the host's; whatever it started is
ended with it.
"""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException

IMAGE = "headrace-test-busybox"
START_S_MAX = 60
INSTEAD = (
    "unshare", "--mount", "sh", "-ec",
    'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"', "sh",
)  # fmt: skip
"""What follows, up to `--`, are files by twos: the second of each is the first for what follows then."""
BUSYBOX = Path("/bin/busybox")
APPLETS = (
    "cat", "chmod", "chown", "chroot", "dd", "echo", "env", "false", "find", "head", "id", "kill", "ls",
    "mkdir", "mknod", "mount", "nc", "ps", "pwd", "sh", "sleep", "stty", "su", "tail", "test", "touch",
    "tr", "true", "unshare", "wc", "yes",
)  # fmt: skip


class DockerEngine:
    """One dockerd with these `settings` (of its daemon.json), which finds `files` in the place of the
    host's. `kill` it or `stop` it as an operator or a crash would, and `start` it again.
    """

    def __init__(
        self, folder: Path, settings: dict[str, Any], files: dict[str, Path] | None = None
    ) -> None:
        self._folder = folder
        self._settings, self._files = settings, files or {}
        self.address = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._containerd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder = self._folder
        if self._containerd is None:
            others = [word for pair in self._files.items() for word in reversed(pair)]
            self._containerd = self._run(
                [*(INSTEAD if others else ()), *map(str, others), *(["--"] if others else []), "containerd", "--config", "/dev/null", "--root", folder / "containerd-root",
                 "--state", folder / "containerd-state", "--address", folder / "containerd.sock"]
            )  # fmt: skip
            self._await((folder / "containerd.sock").exists)  # then `files` are there
        config = folder / "daemon.json"
        config.write_text(json.dumps(self._settings))
        words = [
            "dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec",
            "--pidfile", folder / "docker.pid", "--host", self.address,
            "--iptables=false", "--bridge=none", "--storage-driver=vfs",
            "--config-file", config, "--containerd", folder / "containerd.sock",
        ]  # fmt: skip
        mounts = (
            ["nsenter", "--mount", "--target", str(self._containerd.pid)] if self._files else []
        )
        self._process = self._run([*mounts, *words])
        self._await(self._answers)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End dockerd alone; with `live_restore` containers run on."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(timeout=START_S_MAX)

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.address)

    def close(self) -> None:
        """End it with everything it runs."""
        if self._answers():
            with closing(self.client()) as client:
                for container in client.containers.list(all=True):
                    container.remove(force=True)
            self.stop()
        if self._containerd is not None:
            self._containerd.terminate()
            self._containerd.wait(timeout=START_S_MAX)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for path in sorted(
            filter(lambda m: m.startswith(f"{self._folder}/"), mounts), reverse=True
        ):
            subprocess.run(["umount", path], check=True)  # left by one that was killed
        shutil.rmtree(self._folder)

    def make_image(
        self, name: str = IMAGE, *more: str, links: dict[str, str] | None = None
    ) -> None:
        """An image of busybox, with an entry point that would fail, `more` lines of a Dockerfile, and
        `links` by their path.
        """
        with closing(self.client()) as client:
            changes = ["ENV PATH=/bin:/opt/image/bin", 'ENTRYPOINT ["/bin/false"]', *more]
            client.api.import_image_from_data(
                file_system(links or {}), repository=name, tag="latest", changes=changes
            )

    def has_image(self, name: str) -> bool:
        with closing(self.client()) as client:
            return bool(client.api.images(name=name))

    def _run(self, words: list[str | Path]) -> subprocess.Popen[bytes]:
        with (self._folder / "engine.log").open("ab") as log:
            return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def _await(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + START_S_MAX
        while not is_so():
            ended = [each for each in (self._process, self._containerd) if each and each.poll()]
            log = self._folder / "engine.log"
            assert not ended, log.read_text()[-2000:]
            assert time.monotonic() < deadline_s, log.read_text()[-2000:]
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with closing(self.client()) as client:
                return bool(client.ping())
        except DockerException:
            return False


def file_system(links: dict[str, str] | None = None, **files: bytes) -> bytes:
    """A tar of busybox and these links and files, and nothing else."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as image:
        folder = tarfile.TarInfo("bin")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        image.addfile(folder)
        image.add(BUSYBOX, "bin/busybox")
        applets = dict.fromkeys((f"bin/{applet}" for applet in APPLETS), "busybox")
        for path, target in (applets | (links or {})).items():
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            image.addfile(link)
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            image.addfile(entry, io.BytesIO(content))
    return tar.getvalue()
