"""Two departments with a project each, people with roles in them, and what their tokens are."""

from __future__ import annotations

import hashlib

from headrace.access.names import member_of
from headrace.events.people import Account, ApiTokenCreated, Grant, RoleGranted, UserSet
from headrace.events.queues import Queue, QueueConfigured

TREE = {"research": "", "vision": "research", "labs": "", "zeta": "labs"}
SCOPES = ("", "research", "vision", "zeta")


def secret_of(user):
    """The token of a user of these tests."""
    return f"hra_{user}_secret"


def configured(name, parent="", members=()):
    kind = "project" if parent else "department"
    queue = Queue(queue=name, kind=kind, parent=parent, members=tuple(members))
    return QueueConfigured(name=name, queue=queue, change="created")


def tree():
    return [configured(name, parent) for name, parent in TREE.items()]


def token(user, *, name="", **more):
    digest = hashlib.sha256(secret_of(name or user).encode()).hexdigest()
    return ApiTokenCreated(token=f"id-{name or user}", digest=digest, user=user, **more)


def person(user, *grants, **more):
    """A user (a service under its whole name) with these roles, and a token."""
    member = member_of(user)
    made = [UserSet(user=user, account=Account(**more), change="created")]
    made += [
        RoleGranted(member=member, grant=Grant(role=role, scope=scope), change="created")
        for role, scope in grants
    ]
    return [*made, token(user)]
