"""The namespaces of one attempt: its processes see each other and no others, files of their own in
the shared places, and nothing of the platform.

Rule: nothing outlives the first process of a PID namespace, its *init*: the kernel kills what is left in
it before the parent learns of init's end. With an agent that is root the shim is init: it stays outside
of the mounts, and belongs to root, so that no job can signal, trace or look through it. Mounts and IPC
are made once, by a thread of the shim that the worker's first process is then started from (by that
process itself where a thread cannot have an account of its own), and joined by every later one.
A shim that is not root has its jobs' account, and stays out of their sight: it starts an init beside it,
which has all rights in their user namespace, makes the mounts, and ends what is left when the shim ends.
Source: pid_namespaces(7), mount_namespaces(7), user_namespaces(7).
"""

import contextlib
import errno
import os
import signal
import stat
from typing import Any

from headrace.node_agent.supervision import kernel
from headrace.node_agent.supervision.beneath import Folder
from headrace.node_agent.supervision.mountpoints import Account, files_of, hold, mount, show

ROOT, USER = "root", "user"  # whose: of an agent that is root, or of one that is not
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  (a folder of the attempt is shown there)
TMP = "tmp"  # that folder, in the attempt's
SHARED_MEMORY = "/dev/shm"  # noqa: S108
TERMINALS = "/dev/pts"
# Of one attempt. All have 3,072 together, and 1,024 more are the machine's alone (kernel.pty.reserve).
TERMINALS_MAX = 64
KEYS = ("/proc/keys", "/proc/key-users")
PROCESSES = "/proc"
GROUPS = "/sys/fs/cgroup"
NOTHING = "nothing"  # beside the covers: what covers a file
COVER = "size=1m,nr_inodes=4096,mode=755"
SAID_BYTES_MAX = 1024
_COVERED, _BOUND = 0, 1  # at one path, in this order
FILES_MAX = 4096  # descriptors that init may have inherited
_KINDS = kernel.NEW_MOUNTS | kernel.NEW_IPC
_OWN_TERMINALS = f"newinstance,ptmxmode=0666,mode=620,max={TERMINALS_MAX}"
WAITED_FOR = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP)
LEAVE, END = signal.SIGHUP, signal.SIGTERM  # to init, from its shim

View = dict[str, Any]
"""What the attempt's processes see: `kind` (root or user), `hidden` (paths that are empty for them),
`shown` (each `[path, is_read_only]`: what of it they see nevertheless), `named` (what they see too, of places
where everybody may lay links: paths without any), `asked` (such that the job names: its account must get
there by itself), `refused` (devices' files that
they cannot open), `shm_bytes` (0: half of the memory), `shares_memory` (its /dev/shm is the host's),
`names` (`[line of passwd, line of group]` or
None: the account has them), `scopes_sockets`, `group` (the control group of version 2 that is
all there is of those; "": what of them is hidden and shown is among the paths)."""

Mounts = list[tuple[str, str, bool]]


class Namespaces:
    """One attempt's. `mounts` are each (source, target, is_read_only)."""

    def __init__(self, view: View, mounts: Mounts) -> None:
        self._view, self._mounts = view, mounts
        self.init = 0  # the pid of one that is not this process, once it was started
        self._account: Account = None
        self.is_first = False  # whether the next to enter makes them, beside this process: there is no init but it
        self._joined: list[
            tuple[int, int]
        ] = []  # each a descriptor, and what there is to enter by it
        self.root = -1  # a descriptor of the top of all that is seen, once there is a first process

    def start(self, account: Account) -> None:
        """Make what the first process finds, once; the attempt's folder for temporary files is there. Raises
        `OSError` with the path or the kind of thing that could not be had.
        """
        if self._joined or self.is_first:
            return
        self._account = account
        is_users = self._view["kind"] == USER
        if is_users:
            _be_alone_of_this_user()
        elif os.getpid() != kernel.FIRST:
            raise OSError(errno.ESRCH, "is not of its own", "namespace of processes")
        if self._view["scopes_sockets"]:
            kernel.scope_sockets()
        if is_users:
            self._start_init()
        else:
            self.is_first = True

    def make(self) -> None:
        """In a thread of this process, which is in them from then on: make them, and hold on to them. Raises
        `OSError`.
        """
        self._make()
        at = f"{PROCESSES}/thread-self/ns"
        mounts, ipc = (os.open(f"{at}/{name}", os.O_RDONLY) for name in ("mnt", "ipc"))
        self._joined = [(mounts, kernel.NEW_MOUNTS), (ipc, kernel.NEW_IPC)]
        self.root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        self.is_first = False

    def enter(self) -> None:
        """In a new process, which has been in the PID namespace from its start. Raises `OSError`."""
        if self._own_groups:  # the group that it is in by now is the top of all that it hears of
            kernel.unshare(self._own_groups)
        for descriptor, kinds in self._joined:
            kernel.join(descriptor, kinds)
        os.fchdir(self.root)  # joining led to the namespace's own: the agent's may be in it
        os.chroot(".")

    @property
    def _own_groups(self) -> int:
        return kernel.NEW_GROUPS if self._view["group"] else 0

    def tell(self, what: int) -> None:
        """Have init leave when it has no children, or end them all first."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init, what)

    def seal(self, path: str) -> None:
        """Show this from now on so that nobody can write there. Raises `OSError`."""
        if not self._joined:
            shown = self._view["shown"]
            self._view["shown"] = [(each, only or each == path) for each, only in shown]
            return
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.enter()
                kernel.restrict(path, kernel.READ_ONLY)
                code = 0
            except OSError as error:
                code = error.errno or code
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(code, os.strerror(code), path)

    def _make(self) -> None:
        kernel.unshare(_KINDS | self._own_groups)
        mask = os.umask(0o022)  # everybody may get to what is shown
        kernel.leave_mounts()
        self._arrange()
        os.umask(mask)

    def _start_init(self) -> None:
        told, tell = os.pipe()
        self.init = os.fork()
        if self.init == 0:
            self._be_init(tell)
        os.close(tell)
        said = os.read(told, SAID_BYTES_MAX)
        os.close(told)
        if said != b"ready":
            number, _, rest = said.decode(errors="replace").partition("\0")
            why, _, what = rest.partition("\0")
            raise OSError(int(number or 0), why or "it was killed", what or "init")
        self._joined = [(os.pidfd_open(self.init), _KINDS)]
        self.root = os.open(f"{PROCESSES}/{self.init}/root", os.O_PATH | os.O_DIRECTORY)

    def _be_init(self, tell: int) -> None:
        """Never returns."""
        try:
            kernel.die_with_parent()
            kernel.rename("headrace-init")
            os.closerange(3, tell)
            os.closerange(tell + 1, FILES_MAX)
            self._make()
            os.closerange(3, tell)
            os.closerange(tell + 1, FILES_MAX)
            os.write(tell, b"ready")  # ends this process if the shim had gone before it could tell
            os.close(tell)
            _reap()
        except OSError as error:
            said = f"{error.errno or 0}\0{error.strerror}\0{error.filename or ''}"
            os.write(tell, said.encode()[:SAID_BYTES_MAX])
        finally:
            os._exit(1)

    def _arrange(self) -> None:
        """What is shown is opened before anything is covered. Raises `OSError`."""
        view = self._view
        shown = [(*_held(path), only) for path, only in view["shown"]]
        with Folder.at("/") as top:
            shown += [(top.find(path.lstrip("/")), path, False) for path in view["named"]]
            with files_of(self._account):  # a job names it: it must get there by itself
                shown += [(top.find(path.lstrip("/")), path, False) for path in view["asked"]]
        if view["group"]:
            shown.append((_held(view["group"])[0], GROUPS, True))
        mounts = [
            (target, hold(source, is_read_only=only)) for source, target, only in self._mounts
        ]
        temporary = [os.open(TMP, os.O_PATH | os.O_DIRECTORY) for _ in TEMPORARY]
        os.chdir("/")
        whole = {path for _, path, _ in shown}  # what is mounted there first would come along
        replaced = [path for path in TEMPORARY if path not in whole and _is_folder(path)]
        places = [(path, _BOUND, temporary.pop(), False) for path in replaced]
        places += [(path, _COVERED, -1, False) for path in view["hidden"]]
        places += [(path, _BOUND, source, only) for source, path, only in shown]
        covers: list[str] = []
        kernel.mount("tmpfs", PROCESSES, COVER)  # one for all covers, where processes will be seen
        nothing = _nothing()
        for path, how, source, is_read_only in sorted(places):  # what is in another after that
            if how == _BOUND:
                is_new = any(path.startswith(f"{folder}/") for folder in (*covers, *replaced))
                show(source, path, is_read_only=is_read_only, is_new=is_new)
            elif _is_folder(path):
                cover = f"{PROCESSES}/{len(covers)}"
                os.mkdir(cover)
                kernel.show(cover, path)
                covers.append(path)
            elif os.path.exists(path):
                show(os.dup(nothing), path, is_read_only=True, is_new=False)
        for target, tree in sorted(mounts):
            mount(tree, target, self._account)
        for path in view["refused"]:
            kernel.show(path, path)
            kernel.restrict(path, kernel.NO_DEVICES)
        if view["names"]:
            _name(view["names"])
        _replace_devices(view)
        for path in covers:
            kernel.restrict(path, kernel.READ_ONLY, is_recursive=False)
        for unused in temporary:
            os.close(unused)
        kernel.mount("proc", PROCESSES)
        for path in KEYS if view["kind"] == USER else ():  # the person's own are named there, too
            if os.path.exists(path):
                show(os.dup(nothing), path, is_read_only=True, is_new=False)
        os.close(nothing)


def _replace_devices(view: View) -> None:
    """Terminals and shared memory of its own."""
    if os.path.isdir(TERMINALS):
        kernel.mount("devpts", TERMINALS, _OWN_TERMINALS)
    if os.path.isdir(SHARED_MEMORY) and not view["shares_memory"]:
        size = f",size={view['shm_bytes']}" if view["shm_bytes"] else ""
        kernel.mount("tmpfs", SHARED_MEMORY, f"mode=1777{size}")


def _nothing() -> int:
    """A descriptor of an empty file that nobody can open but root, and not write: what a job would find
    of a device's file, its owner among it, would be the host's.
    """
    path = f"{PROCESSES}/{NOTHING}"
    kernel.write(path, b"")
    os.chmod(path, 0)
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _be_alone_of_this_user() -> None:
    """Have a user namespace in which there is this process's account and no other. Raises `OSError`."""
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEW_USER | kernel.NEW_PIDS)
    kernel.write("/proc/self/setgroups", b"deny", flags=0)
    kernel.write("/proc/self/uid_map", b"%d %d 1" % (user, user), flags=0)
    kernel.write("/proc/self/gid_map", b"%d %d 1" % (group, group), flags=0)


def _held(path: str) -> tuple[int, str]:
    """A descriptor of what is there now, whatever covers it later, and its path without links."""
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    return found, os.readlink(f"{PROCESSES}/thread-self/fd/{found}")


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _name(lines: list[str]) -> None:
    """Have the account in the files in which programs look for its name. They are beside the covers,
    where processes will be seen, so that nobody gets to them in another way.
    """
    for path, line in zip(("/etc/passwd", "/etc/group"), lines, strict=True):
        known = kernel.read(path, os.stat(path).st_size)
        own = f"{PROCESSES}/{os.path.basename(path)}"
        kernel.write(own, known.rstrip(b"\n") + b"\n" + line.encode() + b"\n")
        os.chmod(own, 0o644)
        kernel.show(own, path)
        kernel.restrict(path, kernel.READ_ONLY)


def _reap() -> None:
    """Be the parent of whoever has lost their own, until the shim says so and nobody is left. Only
    the shim is outside the namespace, where no number is known for it (`si_pid` is 0).
    """
    is_leaving = False
    while True:
        received = signal.sigwaitinfo(WAITED_FOR)
        is_told = received.si_signo != signal.SIGCHLD and received.si_pid == 0
        is_leaving = is_leaving or is_told
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if is_leaving:
                os._exit(0)
            continue
        if is_told and received.si_signo == END:
            for number in (signal.SIGTERM, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, number)


def try_out(folder: str) -> None:
    """Make the namespaces of an attempt in this empty folder, and print which could be had: their
    kind, and `sockets`. Raises `OSError` where there are none.
    """
    os.chdir(folder)
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    if os.geteuid() == 0:
        kernel.unshare(kernel.NEW_PIDS)
        pid = os.fork()
        if pid:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    view: View = {"kind": USER if os.geteuid() else ROOT, "hidden": [folder], "shown": []}
    view |= {"named": [], "refused": [], "shm_bytes": 0, "shares_memory": False, "names": None}
    view |= {"group": "", "asked": []}
    view["scopes_sockets"] = kernel.can_scope_sockets()
    namespaces = Namespaces(view, [])
    os.mkdir(TMP)
    namespaces.start(None)
    if namespaces.is_first:
        kernel.run_beside(namespaces.make)
    namespaces.seal("/proc")  # a process joins, and may do there what a shim needs
    if namespaces.init:
        namespaces.tell(LEAVE)
        os.waitpid(namespaces.init, 0)
    print(view["kind"], *(["sockets"] if view["scopes_sockets"] else []))
