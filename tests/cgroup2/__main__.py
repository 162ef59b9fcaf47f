"""`python -m tests.cgroup2 FOLDER [TEST …]`: the tests of control groups on a kernel that has version 2 alone.

Rule: a virtual machine with Debian's kernel, whose packages lie unpacked in the folder, finds this machine's
files read-only under a layer of its own, and every controller in version 2. Nothing here is changed. It is
emulated, whether there is a KVM or not, and some thirty times slower than this machine: what is tried is what
needs the controllers of version 2, and no plugin of pytest's is loaded that these tests do not need. What a
host that has both versions offers of version 2 is tried by `make test`.
"""

from __future__ import annotations

import gzip
import io
import shlex
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUSYBOX = Path("/bin/busybox")
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "9pnet",
    "9pnet_virtio", "netfs", "fscache", "9p", "overlay",
)  # fmt: skip
"""In the order in which they need each other; one that is not there is built in."""
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
for module in /modules/*; do $b insmod $module; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /below
$b mount -t tmpfs layer /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/below,upperdir=/layer/upper,workdir=/layer/work root /root
$b mount -t proc proc /root/proc
$b mount -t sysfs sysfs /root/sys
$b mount -t devtmpfs dev /root/dev
$b mkdir -p /root/dev/shm /root/dev/pts
$b mount -t tmpfs shm /root/dev/shm
$b mount -t devpts pts /root/dev/pts
$b mount -t tmpfs tmp /root/tmp
$b mount -t tmpfs run /root/run
$b mount -t cgroup2 -o nsdelegate groups /root/sys/fs/cgroup
$b ip link set lo up
ulimit -n 65536
$b chroot /root /bin/sh /layer-command
$b echo "HEADRACE ENDED $?"
$b poweroff -f
"""
COMMAND = """export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
uname -r; cat /sys/fs/cgroup/cgroup.controllers
cd {root}
exec {python} -m pytest -v -p pytest_asyncio -p pytest_timeout -p no:cacheprovider --durations 0 \\
    --timeout {limit_s} {tests} 2>&1
"""
LIMIT_S = 1_800  # of the machine as a whole
_ISOLATION, _DEVICES = (
    "tests/node_agent/test_isolation.py",
    "tests/node_agent/test_denied_devices.py",
)
TESTS = (
    f"{_ISOLATION}::test_a_worker_runs_in_its_groups_which_go_with_it",
    f"{_ISOLATION}::test_who_uses_more_memory_than_it_asked_for_ends_with_that_reason",
    f"{_ISOLATION}::test_a_fork_bomb_stops_at_the_limit_of_tasks",
    f"{_ISOLATION}::test_who_uses_more_cpu_than_it_asked_for_is_throttled",
    f"{_ISOLATION}::test_a_job_changes_nothing_about_its_own_groups[best]",
    f"{_ISOLATION}::test_what_hides_from_its_mark_is_found_in_its_group[best]",
    f"{_DEVICES}::test_a_worker_cannot_open_the_devices_it_was_not_given[best]",
)


def entry(name: str, mode: int, content: bytes = b"") -> bytes:
    """A file or folder of a kernel's first file system (cpio, new format)."""
    numbers = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def first_file_system(modules: list[Path], command: str) -> bytes:
    """What the kernel begins with: modules, and what starts the command in this machine's files."""
    init = INIT.replace(
        "$b chroot", f"$b printf %s {shlex.quote(command)} > /root/layer-command\n$b chroot"
    )
    made = io.BytesIO()
    for name in ("bin", "proc", "modules", "below", "layer", "root"):
        made.write(entry(name, stat.S_IFDIR | 0o755))
    made.write(entry("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes()))
    made.write(entry("init", stat.S_IFREG | 0o755, init.encode()))
    for number, module in enumerate(modules):
        made.write(entry(f"modules/{number:02}", stat.S_IFREG | 0o644, module.read_bytes()))
    made.write(entry("TRAILER!!!", 0))
    return gzip.compress(made.getvalue(), 1)


def main(folder: Path, tests: list[str]) -> int:
    """Run these; 0 when none failed."""
    kernel = next(folder.glob("boot/vmlinuz-*"))
    there = {
        path.name.partition(".")[0]: path for path in folder.glob("lib/modules/*/kernel/**/*.ko")
    }
    modules = [there[name] for name in MODULES if name in there]
    command = COMMAND.format(
        root=ROOT, python=sys.executable, limit_s=LIMIT_S, tests=shlex.join(tests)
    )
    with tempfile.NamedTemporaryFile(prefix="headrace-cgroup2-") as initial:
        initial.write(first_file_system(modules, command))
        initial.flush()
        words = [
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "3072",
            "-nographic", "-vga", "none", "-nic", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", initial.name,
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
            "-append", "console=ttyS0 panic=-1 quiet",
        ]  # fmt: skip
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as machine:
            assert machine.stdout is not None
            limit = threading.Timer(LIMIT_S, machine.kill)
            limit.start()
            code = 1
            for line in machine.stdout:
                text = line.decode(errors="replace").rstrip()
                print(text, flush=True)
                if text.startswith("HEADRACE ENDED "):
                    code = int(text.split()[-1])
            limit.cancel()
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(TESTS)))
