"""The applications that a workspace can name, and how each is started.

Rule: it listens at `$HEADRACE_APP_SOCKET`, which nobody but its own job and the node's agent can get
to, and asks nobody for a password: who may come is checked at the gateway, which carries all of its
pages at one host name. What it talks to by itself (kernels) it reaches through sockets too, as every
job of a machine may connect to a TCP port there. What is not installed where the job runs ends it with
a line that says what is missing.
"""

from __future__ import annotations

_MISSING = "app: {name} needs {what} where the job runs; {instead}"
_SOCKET_CHARACTERS_MAX = 100  # the kernel takes 107 bytes of an address
_BEGIN = f"""socket="${{HEADRACE_APP_SOCKET:?is not set: the agent of this node is too old}}"
if [ "${{#socket}}" -gt {_SOCKET_CHARACTERS_MAX} ]; then
  way="$(mktemp -d /tmp/app.XXXXXX)"
  ln -s "${{socket%/*}}" "$way/a"
  socket="$way/a/${{socket##*/}}"
fi
"""
_TRY = """if command -v {program} > /dev/null; then
  {before}exec {program} {arguments}
fi
"""
_TRY_MODULE = """if python3 -c 'import {program}' 2> /dev/null; then
  {before}exec python3 -c '{start}' {arguments}
fi
"""
_ELSE = """echo '{missing}' >&2
exit 127
"""

_JUPYTER = (
    '--no-browser --allow-root --ServerApp.sock="$socket" --KernelManager.transport=ipc'
    " --ServerApp.allow_remote_access=True"
    " --IdentityProvider.token= --PasswordIdentityProvider.hashed_password="
)
_SHORT_RUNTIME = (
    'export JUPYTER_RUNTIME_DIR="$(mktemp -d /tmp/app.XXXXXX)"; '  # of kernels' sockets
)
# marimo has no option for it: its server, uvicorn, has; and so has its channel to a kernel
_MARIMO = """
import multiprocessing.connection as channels, os, sys
import uvicorn
made, listened = uvicorn.Config.__init__, channels.Listener.__init__
def at_the_socket(self, *given, **named):
    made(self, *given, **{**named, "uds": os.environ["HEADRACE_APP_SOCKET"]})
def by_a_socket(self, address=None, family=None, *given, **named):
    listened(self, address, "AF_UNIX" if family == "AF_INET" else family, *given, **named)
uvicorn.Config.__init__, channels.Listener.__init__ = at_the_socket, by_a_socket
from marimo._cli.cli import main
sys.argv[0] = "marimo"
main()
"""
# TensorBoard serves at a socket and fails at saying so: it says the port that stands for it
_TENSORBOARD = """
import os, sys
from tensorboard import main, program
port = os.environ["HEADRACE_APP_PORT"]
program.WerkzeugServer.get_url = lambda self: f"http://localhost:{port}/"
sys.argv[0] = "tensorboard"
main.run_main()
"""


class App:
    """Programs of which the first that is installed is run, each with its arguments; or a Python module
    with arguments, which `start` runs. `before` is done just before. What its pages do at addresses that
    begin with one of `chatter` they do while nobody touches them.
    """

    def __init__(
        self,
        name: str,
        programs: dict[str, str],
        *,
        what: str,
        instead: str,
        before: str = "",
        start: str = "",
        chatter: tuple[str, ...] = (),
    ) -> None:
        self.chatter = chatter
        one, given = _TRY_MODULE if start else _TRY, {"before": before, "start": start}
        tries = (one.format(program=p, arguments=of, **given) for p, of in programs.items())
        missing = _MISSING.format(name=name, what=what, instead=instead)
        self.command = "".join((_BEGIN, *tries, _ELSE.format(missing=missing)))


def chatter_of(app: str) -> tuple[str, ...]:
    """Where the pages of this application are busy by themselves."""
    known = APPS.get(app)
    return known.chatter if known is not None else ()


APPS = {
    "jupyter": App(
        "jupyter",
        {"jupyter-lab": _JUPYTER, "jupyter-notebook": _JUPYTER},
        what="JupyterLab",
        instead="setup: pip install jupyterlab",
        before=_SHORT_RUNTIME,
        chatter=(
            "/api/events/",
            "/lab/api/workspaces/",
        ),  # what is read is told; the layout is kept
    ),
    "vscode": App(
        "vscode",
        {
            "code-server": '--socket "$socket" --auth none'
            " --disable-telemetry --disable-update-check .",
            "openvscode-server": '--socket-path "$socket"'
            ' --without-connection-token --default-folder "$PWD"',
        },
        what="code-server or openvscode-server",
        instead="an image: that has one will do",
    ),
    "marimo": App(
        "marimo",
        {"marimo": 'edit --headless --host 127.0.0.1 --port "$HEADRACE_APP_PORT" --no-token'},
        what="marimo (a module of python3)",
        instead="setup: pip install marimo",
        before='export HEADRACE_APP_SOCKET="$socket"; ',
        start=_MARIMO,
    ),
    "tensorboard": App(
        "tensorboard",
        {"tensorboard": '--host "unix://$socket" --port 0 --load_fast=false --logdir .'},
        what="TensorBoard (a module of python3)",
        instead="setup: pip install tensorboard",
        start=_TENSORBOARD,
    ),
}
