"""The verbs of the command line, and where each is.

Rule: only the module of the verb that was typed is imported. A verb is two functions there: the
one with its name and `_options` adds its arguments to a parser; the one with its name is called
with them and returns the exit code. The parser is the standard library's, which costs a tenth of
what others do before the first byte is sent.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace.cli.arguments import Parser
from headrace.cli.exits import DONE, USAGE, report


class Verb(NamedTuple):
    """The module of `headrace.cli` that has the verb, and what it does in one line."""

    module: str
    about: str
    is_foreign: bool = False  # its options are another program's: it is called with the words
    is_local: bool = False  # about this machine as a platform or a node, which Linux alone can be


VERBS = {
    "run": Verb("running", "submit a command as a job and follow it to its end"),
    "submit": Verb("submitting", "submit job files"),
    "explain": Verb("fields", "what a field of a job file means"),
    "sbatch": Verb("batching", "submit a batch script written for Slurm", is_foreign=True),
    "slurm": Verb("slurm_commands", "Slurm's commands for scripts that call them", is_foreign=True),
    "ps": Verb("reading", "jobs: where they run, or why they do not"),
    "describe": Verb("describing", "one job: attempts, decisions, timeline"),
    "why": Verb("explaining", "why a job waits, and what would let it start"),
    "sweep": Verb("sweeping", "the trials of a sweep in one table"),
    "logs": Verb("following", "what a job's workers wrote"),
    "outputs": Verb("leaving", "fetch what a job left behind"),
    "exec": Verb("entering", "run a program beside a job's worker"),
    "attach": Verb("entering", "see what a worker writes from now on, and how it ends"),
    "port-forward": Verb("entering", "reach a TCP port of a worker from here"),
    "open": Verb("entering", "open a workspace in a browser"),
    "cancel": Verb("changing", "end jobs"),
    "pause": Verb("changing", "have jobs leave their GPUs, with all they did where that works"),
    "resume": Verb("changing", "let paused jobs go on"),
    "events": Verb("following", "the log, from any moment on"),
    "apply": Verb("admin", "create or change projects, pools, volumes, templates, …"),
    "get": Verb(
        "getting", "a project, pool, volume, … as it was applied, to change and apply again"
    ),
    "delete": Verb("deleting", "delete what was applied, or a node"),
    "projects": Verb("reading", "departments and projects: quota, share, use"),
    "usage": Verb("accounts", "GPU hours and their cost, by project, user, day, …"),
    "node": Verb("nodes", "list nodes, let machines join, cordon, drain, delete"),
    "completion": Verb("completing", "what a shell needs to complete these verbs"),
    "doctor": Verb(
        "doctoring",
        "whether this machine can be a good node; weak spots of a platform",
        is_local=True,
    ),
    "pool": Verb("inventory", "pools: which nodes, how they are filled, prices"),
    "volume": Verb("inventory", "volumes, and which nodes reach them"),
    "template": Verb("templating", "templates of job files: list, show"),
    "secret": Verb("admin", "secrets of a project: list their names, set one"),
    "publisher": Verb("publishing", "who publishes jobs on the bus: list, make, renew, end"),
    "webhook": Verb("hooks", "who outside is told what happens to jobs"),
    "login": Verb("login", "sign in on a platform, and remember it"),
    "context": Verb("contexts", "the platforms known here, and which one is asked"),
    "whoami": Verb("people", "who one is here, and with which roles"),
    "user": Verb("people", "people and services on record"),
    "role": Verb("people", "who may do what in which project"),
    "token": Verb("people", "API tokens: list, make, revoke"),
    "erase": Verb("admin", "make what a project's jobs ran unreadable for ever"),
    "rebuild": Verb("rebuilding", "fold what the gateway answers with from the log again"),
    "verify": Verb("verifying", "derive every decision again from the log", is_local=True),
    "up": Verb("platform", "start a platform on this machine", is_local=True),
    "down": Verb("platform", "stop it", is_local=True),
    "status": Verb("status", "what of a platform runs, and whether it is well"),
}

EXIT_CODES = """exit codes
  0    done; `run` and `submit --wait` exit as their job does
  1    it failed, or what was looked at is not as it should be
  2    the command line was not understood
  120  refused: the line says which field, why, and what would be accepted
  121  the job was cancelled
  122  the platform is not reached
  123  `run`: no set of today's nodes could hold the job, which waits for one that can
  124  not in time
  125  headrace failed itself
  130  interrupted"""
HELP = frozenset(("-h", "--help"))
LINUX_ONLY = "platforms and nodes are machines with Linux; headrace login URL to use one from here"
NOT_YET = frozenset(("whatif",))


def main(arguments: Sequence[str]) -> int:
    """Run one command line (without the program's name); its exit code."""
    name = arguments[0] if arguments else "--help"
    if name in {*HELP, "help"}:
        print(_overview())
        return DONE
    if name == "--version":
        print(f"headrace {_version()}")
        return DONE
    if name not in VERBS:
        return report(_unknown(name), USAGE)
    verb = VERBS[name]
    if verb.is_local and sys.platform != "linux":
        return report(f"headrace {name}: {LINUX_ONLY}", USAGE)
    module = importlib.import_module(f"headrace.cli.{verb.module}")
    word = name.replace("-", "_")
    perform: Callable[..., int] = getattr(module, word)
    if verb.is_foreign:
        return perform(arguments[1:])
    parser = Parser(prog=f"headrace {name}", description=f"{verb.about}.", allow_abbrev=False)
    parser.epilog = _examples(name) if HELP & set(arguments[1:]) else None
    getattr(module, f"{word}_options")(parser)
    keywords = parser.keywords(arguments[1:])
    if not keywords.pop("watch", False):
        return perform(**keywords)
    from headrace.cli.watching import watch

    return watch(lambda: perform(**keywords))


def _examples(name: str) -> str:
    from headrace.cli.examples import EXAMPLES

    return "examples:\n" + "\n".join(f"  {example}" for example in EXAMPLES[name])


def _unknown(name: str) -> str:
    if name in NOT_YET:
        return f"headrace {name}: not yet"
    import difflib

    near = difflib.get_close_matches(name, VERBS, n=1)
    meant = f"; did you mean {near[0]}?" if near else " (see headrace --help)"
    return f"headrace: unknown verb {name}{meant}"


def _overview() -> str:
    width = max(len(name) for name in VERBS)
    verbs = "\n".join(f"  {name:<{width}}  {verb.about}" for name, verb in VERBS.items())
    return f"usage: headrace VERB …    (headrace VERB --help tells more)\n\n{verbs}\n\n{EXIT_CODES}"


def _version() -> str:
    from importlib.metadata import version

    return version("headrace")
