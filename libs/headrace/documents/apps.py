"""The applications that a workspace can name, and how each is started.

Rule: it listens at `$HEADRACE_APP_PORT` of its own node alone and asks nobody for a password: who
may come is checked at the gateway, which carries all of its pages at one host name. What is not
installed where the job runs ends it with a line that says what is missing.
"""

from __future__ import annotations

_MISSING = "app: {name} needs {what} where the job runs; {instead}"
_TRY = """if command -v {program} > /dev/null; then
  exec {program} {arguments}
fi
"""
_ELSE = """echo '{missing}' >&2
exit 127
"""

_JUPYTER = (
    '--no-browser --allow-root --ip 127.0.0.1 --port "$HEADRACE_APP_PORT"'
    " --ServerApp.port_retries=0 --ServerApp.allow_remote_access=True"
    " --IdentityProvider.token= --PasswordIdentityProvider.hashed_password="
)


class App:
    """Programs of which the first that is installed is run, each with its arguments. What its pages
    do at addresses that begin with one of `chatter` they do while nobody touches them.
    """

    def __init__(
        self,
        name: str,
        programs: dict[str, str],
        what: str,
        instead: str,
        chatter: tuple[str, ...] = (),
    ) -> None:
        self.chatter = chatter
        tries = (_TRY.format(program=each, arguments=of) for each, of in programs.items())
        missing = _MISSING.format(name=name, what=what, instead=instead)
        self.command = "".join(tries) + _ELSE.format(missing=missing)


def chatter_of(app: str) -> tuple[str, ...]:
    """Where the pages of this application are busy by themselves."""
    known = APPS.get(app)
    return known.chatter if known is not None else ()


APPS = {
    "jupyter": App(
        "jupyter",
        {"jupyter-lab": _JUPYTER, "jupyter-notebook": _JUPYTER},
        "JupyterLab",
        "setup: pip install jupyterlab",
        chatter=(
            "/api/events/",
            "/lab/api/workspaces/",
        ),  # what is read is told; the layout is kept
    ),
    "vscode": App(
        "vscode",
        {
            "code-server": '--bind-addr "127.0.0.1:$HEADRACE_APP_PORT" --auth none'
            " --disable-telemetry --disable-update-check .",
            "openvscode-server": '--host 127.0.0.1 --port "$HEADRACE_APP_PORT"'
            ' --without-connection-token --default-folder "$PWD"',
        },
        "code-server or openvscode-server",
        "an image: that has one will do",
    ),
    "marimo": App(
        "marimo",
        {"marimo": 'edit --headless --host 127.0.0.1 --port "$HEADRACE_APP_PORT" --no-token'},
        "marimo",
        "setup: pip install marimo",
    ),
    "tensorboard": App(
        "tensorboard",
        {"tensorboard": '--host 127.0.0.1 --port "$HEADRACE_APP_PORT" --logdir .'},
        "TensorBoard",
        "setup: pip install tensorboard",
    ),
}
