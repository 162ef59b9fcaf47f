"""A machine in a network of its own, which lets nothing in, and the agent that joins from there."""

from __future__ import annotations

import secrets
import subprocess
import sys

from .conftest import Platform

JOINED_S_MAX = 60.0
NET = "10.213.{0}.{1}"


class Elsewhere:
    """A network namespace whose host lets it dial out and nothing dial in, as a NAT does."""

    def __init__(self) -> None:
        tag = secrets.token_hex(3)
        self.name, self._outer, self._inner = f"hr-{tag}", f"hro-{tag}", f"hri-{tag}"
        third = 1 + int(tag[:2], 16) % 250
        self.head, self.own = NET.format(third, 1), NET.format(third, 2)

    def open(self) -> None:
        ip("netns", "add", self.name)
        ip("link", "add", self._outer, "type", "veth", "peer", "name", self._inner)
        ip("link", "set", self._inner, "netns", self.name)
        ip("addr", "add", f"{self.head}/24", "dev", self._outer)
        ip("link", "set", self._outer, "up")
        for words in (
            ("addr", "add", f"{self.own}/24", "dev", self._inner),
            ("link", "set", self._inner, "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", self.name, *words)
        self.let_nothing_in()

    def let_nothing_in(self) -> None:
        """What was not asked for from inside is dropped."""
        rules = (
            f"add table inet {self.name}",
            f"add chain inet {self.name} input {{ type filter hook input priority 0; policy drop; }}",
            f"add rule inet {self.name} input iif lo accept",
            f"add rule inet {self.name} input ct state established,related accept",
        )
        subprocess.run(
            ["ip", "netns", "exec", self.name, "nft", "-f", "-"],
            input="\n".join(rules),
            text=True,
            check=True,
            capture_output=True,
        )

    def cut(self, *, off: bool) -> None:
        """Pull the cable, or put it back."""
        ip("link", "set", self._outer, "down" if off else "up")

    def close(self) -> None:
        for words in (("link", "del", self._outer), ("netns", "del", self.name)):
            subprocess.run(["ip", *words], check=False, capture_output=True)

    def command(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *words]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Machine:
    """A machine that is to be a node, and what its agent wrote."""

    def __init__(self, platform: Platform, elsewhere: Elsewhere, name: str) -> None:
        self.name, self._platform, self._elsewhere = name, platform, elsewhere
        self.folder = platform.home / name
        self.log = platform.home / f"{name}.log"
        self._running: subprocess.Popen[bytes] | None = None

    def join(self, token: str, *options: str) -> None:
        """Start joining, with a token on standard input."""
        url = f"https://{self._elsewhere.head}:{self._platform.url.rpartition(':')[2]}"
        words = ["node", "join", url, "--token", "-", "--name", self.name]
        words += ["--dir", str(self.folder), "--gpus", "simulated:2xA100-40GB", *options]
        self.run("-m", "headrace.cli", *words, stdin=token)

    def run(self, *words: str, stdin: str = "") -> None:
        """Start Python there with these arguments."""
        told = {"HEADRACE_NODE_DIR": str(self.folder)}
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                self._elsewhere.command(sys.executable, *words),
                env=self._platform.env | told,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        assert self._running.stdin is not None
        self._running.stdin.write(f"{stdin}\n".encode())
        self._running.stdin.close()

    @property
    def said(self) -> str:
        return self.log.read_text()

    def status(self) -> int:
        """How joining or the agent ended."""
        assert self._running is not None
        return self._running.wait(JOINED_S_MAX)

    def stop(self) -> None:
        if self._running is not None:
            self._running.terminate()
            self._running.wait(JOINED_S_MAX)
        subprocess.run(
            [sys.executable, "-m", "headrace.node_agent", "--stop-all", str(self.folder)],
            check=False,
            capture_output=True,
        )
