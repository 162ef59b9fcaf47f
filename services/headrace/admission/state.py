"""What admission knows: undecided requests, live jobs and groups, names that exist.

Rule: only live things are kept, and a bounded table of how recent jobs ended.
"""

from __future__ import annotations

import msgspec

from headrace.access.directory import Directory
from headrace.events import (
    access,
    jobs,
    members,
    nodes,
    pauses,
    people,
    pools,
    queues,
    templates,
    webhooks,
)
from headrace.events import volumes as volume_events
from headrace.events.asked import Dependency
from headrace.events.workspaces import WorkspaceSeen

SETTINGS = {
    "outcomes_max": 30_000,  # ended jobs of which it is still known how they ended
    "outcomes_per_project_max": 10_000,  # of those, one project's
    "drafts_max": 400,  # decisions in one turn: an append holds a bounded number of events
    "jobs_per_project_max": 30_000,  # live at a time, tasks included
    "jobs_per_user_max": 15_000,  # of those, one person's or publisher's
    "webhooks_per_project_max": 32,
    "webhooks_max": 1_024,  # of all projects: each reads along with the log
    "tokens_max": 1_000,  # join tokens remembered; the oldest are forgotten first
    "members_max": 10_000,  # nodes, and machines that wait to be one
    "revoked_max": 4_000,  # keys of deleted nodes that the bus refuses; the oldest are forgotten first
    "publishers_per_project_max": 100,  # with those deleted whose logins have not expired
    "publishers_max": 5_000,  # of all projects, likewise: what the bus refuses is one message
    "durable_publishers_per_project_max": 16,  # each has a consumer on the bus
    "durable_publishers_max": 1_000,
    "publisher_lasts_s": 30 * 86_400,  # a publisher signs in with it; renewed with its key
    "credential_lasts_s": 7 * 86_400,  # a node signs in with it; renewed when half of it is over
}

Asked = (
    jobs.JobRequested
    | jobs.JobCancelRequested
    | pauses.JobPauseRequested
    | pauses.JobResumeRequested
    | jobs.JobEnterRequested
    | access.SecretSetRequested
    | access.PublisherRequested
    | access.PublisherDeleteRequested
    | access.ProjectEraseRequested
    | members.TokenRequested
    | members.TokenRevokeRequested
    | members.JoinRequested
    | members.ApprovalRequested
    | members.CredentialRequested
    | volume_events.VolumeApplyRequested
    | volume_events.VolumeDeleteRequested
    | templates.TemplateApplyRequested
    | templates.TemplateDeleteRequested
    | people.UserSetRequested
    | people.UserRemoveRequested
    | people.RoleGrantRequested
    | people.RoleRevokeRequested
    | people.ApiTokenRequested
    | people.ApiTokenRevokeRequested
    | webhooks.WebhookApplyRequested
    | webhooks.WebhookDeleteRequested
)


class Pending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that was recorded and not yet decided on."""

    event: Asked
    actor: str = ""
    traceparent: str = ""


class Live(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job, a group, or a task of a group that has not ended. `key` is the idempotency key that it
    was asked for under, at the position `requested_at`.
    """

    project: str
    user: str = ""
    group: str = ""
    traceparent: str = ""
    cancelling: bool = False
    pausing: bool = False
    after: tuple[Dependency, ...] = ()
    idle_us: int = 0
    volumes: tuple[str, ...] = ()
    requested_at: int = 0
    key: str = ""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher signs in with, and until when, and since when it hears all outcomes."""

    public_key: str
    expires_at_us: int
    durable_since_us: int = 0  # 0: only while it listens


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A publisher of the project was deleted, and its login would be good until then."""

    project: str
    expires_at_us: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a recent job of the project ended: its outcome, or refused."""

    project: str
    outcome: str
    requested_at: int = 0
    key: str = ""


class Unmet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a job waits in vain, since the event at `position`."""

    position: int
    message: str


class Unused(msgspec.Struct, kw_only=True):
    """What was seen at `position` of a workspace that nobody uses; `judged` once it was said."""

    seen: WorkspaceSeen
    position: int
    judged: bool = False


class Group(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sweep or array that has not ended: `admitted` of its tasks were, `live` have not ended."""

    event: jobs.JobAdmitted
    traceparent: str = ""
    admitted: int = 0
    live: dict[str, None] = {}


class Stop(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A group's tasks that are to be cancelled one by one, because of the event at `causation`."""

    causation: int
    user: str = ""
    reason: str = "cancelled"
    message: str = ""
    now: bool = False
    left: dict[str, None] = {}


class Spread(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A group's tasks that are to be paused (or resumed) one by one, as the group is."""

    causation: int
    pausing: bool
    user: str = ""
    left: dict[str, None] = {}


class Machine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node as it last `said`, and whether it is given new work."""

    said: nodes.NodeJoined
    accepting: bool = True


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A template, and where it stands."""

    template: templates.Template
    position: int


class Token(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A join token. `used_by` has the keys that proved it, and the node of each, the first first."""

    digest: str
    uses: int
    expires_at_us: int
    auto_approve: bool = False
    used_by: dict[str, str] = {}


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The machine that is a node, or waits to be (`approved` false)."""

    public_key: str
    box_key: str
    token: str = ""
    host: str = ""
    approved: bool = False


class Hook(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A webhook. `reached` is how far it was told, `failing` why it is not just now; one that has
    `stopped` waits to be applied again.
    """

    webhook: webhooks.Webhook
    secret: bytes
    secret_key: str
    reached: int = 0
    failing: str = ""
    stopped: bool = False


class State(msgspec.Struct, kw_only=True, omit_defaults=True, dict=True):
    """All of it."""

    settings: dict[str, int] = {}
    settings_at: int = 0  # where the log has them first as they are
    pending: dict[int, Pending] = {}  # by position of the request, in order
    queues: dict[str, queues.Queue] = {}
    configured: dict[str, int] = {}  # where each queue's document stands
    gone: dict[str, int] = {}  # queues that were, since that position, and were not made anew
    orphans: dict[str, int] = {}  # live jobs and groups to end: their project is no more since then
    live: dict[str, Live] = {}
    live_of: dict[str, int] = {}  # how many, by project
    live_of_user: dict[str, dict[str, int]] = {}  # by project and user
    groups: dict[str, Group] = {}
    expanding: dict[str, None] = {}  # groups with tasks to admit
    stopping: dict[str, Stop] = {}  # groups with tasks to cancel
    spreading: dict[str, Spread] = {}  # groups with tasks to pause or resume
    outcomes: dict[str, Ended] = {}  # of recent jobs, the oldest first
    outcomes_of: dict[str, dict[str, None]] = {}  # the same by project, the oldest first
    awaited: dict[str, dict[str, str]] = {}  # a live job: who waits for it, for which state
    unmet: dict[str, Unmet] = {}  # jobs to end, as what they wait for can never come
    unused: dict[str, Unused] = {}  # workspaces that nobody uses, as last seen
    nodes: dict[str, Machine] = {}
    pools: dict[str, pools.Pool] = {}
    volumes: dict[str, volume_events.Volume] = {}
    templates: dict[str, dict[str, Kept]] = {}  # project ("": everybody's): name
    secrets: dict[str, dict[str, str]] = {}  # project: name: version
    publishers: dict[str, dict[str, Login]] = {}  # project: name
    tokens: dict[str, Token] = {}  # by their public ids, the oldest first
    members: dict[str, Member] = {}  # by node
    revoked: dict[str, int] = {}  # keys of nodes that were deleted, and when; the oldest first
    deleted: dict[str, Deleted] = {}  # by key, publishers whose logins have not expired
    directory: Directory = msgspec.field(default_factory=Directory)
    hooks: dict[str, dict[str, Hook]] = {}  # project: name
    erasing: dict[str, int] = {}  # erased at that position; its keys are not known to be dropped

    def hooks_by_name(self) -> dict[tuple[str, str], Hook]:
        """Every webhook by its project and name."""
        return {
            (of, name): hook for of, named in self.hooks.items() for name, hook in named.items()
        }

    def setting(self, name: str) -> int:
        """A number of the leader's settings, as the log has it."""
        return self.settings.get(name, SETTINGS[name])

    def set_by(self, name: str) -> str:
        """Who set it, as a refusal has it in brackets."""
        if self.setting(name) == SETTINGS[name]:
            return f"{name}, the default"
        return f"{name}, set for this service at position {self.settings_at}"
