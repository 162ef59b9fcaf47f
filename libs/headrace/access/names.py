"""What users, groups and members may be called, and which role fits where.

Rule: one rule for every door, so that a name from an identity provider, a document or the command
line means the same user. A service's name says whose it is, `service:vision/airflow`, or
`service:airflow` for one of the whole fleet; no person's name can have `:` or `/` in it. So no name
of a person is ever that of a service, and no project makes a service of another.
"""

from __future__ import annotations

import re

from headrace.access.allowed import is_scope
from headrace.access.table import ROLES
from headrace.events import Refusal

ADMIN = "admin"  # whoever shows the platform's own token
RESERVED = frozenset(  # what the record calls the platform's own parts; no person is called so
    (ADMIN, "machine", "admission", "quota", "placement", "metrics", "gateway", "node_agent")
)
SERVICE = "service:"
MEMBER_KINDS = ("user", "group", "service")
SCOPES_MAX = 32  # of one token
PROJECTS_MAX = 32  # of one token
USER_RULE = "has 1 to 128 letters, digits and . _ @ + -, beginning with a letter or digit"
GROUP_RULE = "has 1 to 128 printable characters"
SERVICE_RULE = (
    "is PROJECT/NAME, or NAME for one of the whole fleet; NAME has 1 to 64 letters, digits and . _ -,"
    " beginning with a letter or digit"
)
MEMBER_RULE = "is user:NAME, group:NAME or service:PROJECT/NAME"

_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_SERVICE = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,62}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def service_of(home: str, name: str) -> str:
    """The name, among all users, of the service `name` of a department or project (empty: the fleet)."""
    return f"{SERVICE}{home}/{name}" if home else f"{SERVICE}{name}"


def is_service(user: str) -> bool:
    """Whether this is the name of a service and not of a person."""
    return user.startswith(SERVICE)


def home_of(service: str) -> str:
    """The department or project that a service belongs to; empty for the fleet."""
    home, slash, _ = service.removeprefix(SERVICE).partition("/")
    return home if slash else ""


def member_of(user: str) -> str:
    """The user as roles name them."""
    return user if is_service(user) else f"user:{user}"


def user_refusal(user: str) -> Refusal | None:
    """Why no person and no service can be called so."""
    if is_service(user):
        is_good = _SERVICE.fullmatch(user.removeprefix(SERVICE)) is not None
        return None if is_good else Refusal(field="service", value=_shown(user), rule=SERVICE_RULE)
    return person_refusal(user)


def person_refusal(user: str) -> Refusal | None:
    """Why no person can be called so."""
    if user.lower() in RESERVED:
        return Refusal(field="user", value=user, rule="is the platform's own")
    if not _USER.fullmatch(user):
        return Refusal(field="user", value=_shown(user), rule=USER_RULE)
    return None


def is_group(group: str) -> bool:
    """Whether a group can be called so."""
    return 0 < len(group) <= 128 and group.isprintable()


def member_refusal(member: str) -> Refusal | None:
    """Why this names nobody who could have a role."""
    kind, _, name = member.partition(":")
    if kind not in MEMBER_KINDS:
        return Refusal(field="member", value=_shown(member), rule=MEMBER_RULE)
    if kind == "group":
        is_good = is_group(name)
        return None if is_good else Refusal(field="group", value=_shown(name), rule=GROUP_RULE)
    return user_refusal(member) if kind == "service" else person_refusal(name)


def role_refusal(role: str, kind: str) -> Refusal | None:
    """Why the role cannot be had in a `project`, a `department`, or (empty) in the whole fleet."""
    if role not in ROLES:
        return Refusal(field="role", value=_shown(role), rule=f"is none of {', '.join(ROLES)}")
    if role == "admin" and kind:
        rule, instead = "is of the whole fleet", f"{kind}-admin"
    elif role == "department-admin" and kind == "project":
        rule, instead = "is of a department", "project-admin"
    else:
        return None
    return Refusal(field="role", value=role, rule=rule, instead=instead)


def scopes_refusal(scopes: tuple[str, ...], projects: tuple[str, ...]) -> Refusal | None:
    """Why a token cannot be narrowed so."""
    wrong = next((pattern for pattern in scopes if not is_scope(pattern)), None)
    if wrong is not None:
        rule = "is no scope of a token"
        instead = "job.read, job.*, *.read (headrace token --help)"
        return Refusal(field="scopes", value=_shown(wrong), rule=rule, instead=instead)
    if len(scopes) > SCOPES_MAX or len(projects) > PROJECTS_MAX:
        rule = f"a token has at most {SCOPES_MAX} scopes and {PROJECTS_MAX} projects"
        return Refusal(field="scopes", rule=rule)
    return None


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:60])
