"""One turn's view of what exists: the state, and on top of it what this turn has decided so far.

Rule: requests that are decided in one turn are judged as if they had been decided one after the
other, in the order of the log.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from headrace.access import directory
from headrace.access.names import home_of, is_service
from headrace.admission.derived import index_of, key_holders
from headrace.admission.state import Hook, Login, Member, State, Token
from headrace.events import Decision, access, jobs, members, pauses, templates, volumes, webhooks

DELETED_PUBLISHER, DELETED_NODE = "a publisher that was deleted", "a node that was deleted"


class Hearing:
    """To be asked while deciding at `now_us`, and told of each decision."""

    def __init__(self, state: State, now_us: int = 0) -> None:
        self.state, self.now_us = state, now_us
        self._admitted: dict[str, jobs.JobAdmitted] = {}
        self._admitted_of: Counter[str] = Counter()  # by project
        self._under_key: dict[tuple[str, str], str] = {}  # by project and key
        self._admitted_of_user: Counter[tuple[str, str]] = Counter()
        self._stopped: dict[str, None] = {}
        self._pausing: dict[str, bool] = {}
        self._erased: dict[str, None] = {}
        self._secrets: dict[tuple[str, str], None] = {}
        self._publishers: dict[tuple[str, str], Login | None] = {}
        self._publishers_made: Counter[str] = Counter()  # by project
        self._tokens: dict[str, Token | None] = {}
        self._used: dict[str, dict[str, str]] = {}
        self._members: dict[str, Member | None] = {}
        self._templates: dict[tuple[str, str], templates.Template | None] = {}
        self._volumes: dict[str, volumes.Volume | None] = {}
        self.is_directory_changed = False
        self._hooks: dict[tuple[str, str], Hook | None] = {}

    def tell(self, event: Decision) -> None:
        """What was decided."""
        if isinstance(event, jobs.JobAdmitted):
            self._admitted[event.job] = event
            asked = self.state.pending.get(event.requested_at)
            if asked is not None and isinstance(asked.event, jobs.JobRequested):
                self._under_key[event.project, asked.event.key] = event.job
            self._admitted_of[event.project] += max(1, event.tasks)
            self._admitted_of_user[event.project, event.user] += max(1, event.tasks)
        elif isinstance(event, jobs.JobCancelling):
            self._stopped[event.job] = None
        elif isinstance(event, pauses.JobPausing | pauses.JobResuming):
            self._pausing[event.job] = isinstance(event, pauses.JobPausing)
        elif isinstance(event, access.SecretSet):
            self._secrets[event.project, event.name] = None
        elif isinstance(event, access.PublisherCreated | access.PublisherDeleted):
            self._tell_publisher(event)
        elif isinstance(event, access.ProjectErased):
            self._erased[event.project] = None
        elif isinstance(event, members.TokenCreated):
            self._tokens[event.token] = token_of(event)
        elif isinstance(event, members.TokenRevoked):
            self._tokens[event.token] = None
        elif isinstance(event, members.JoinWaiting | members.MemberAdmitted):
            self._members[event.node] = member_of(event)
            self._used.setdefault(event.token, {})[event.public_key] = event.node
        elif isinstance(event, members.MemberRejected):
            self._members[event.node] = None
        elif isinstance(event, volumes.VolumeConfigured):
            self._volumes[event.name] = event.volume
        elif isinstance(event, volumes.VolumeDeleted):
            self._volumes[event.name] = None
        elif isinstance(event, templates.TemplateConfigured):
            self._templates[event.project, event.name] = event.template
        elif isinstance(event, templates.TemplateDeleted):
            self._templates[event.project, event.name] = None
        elif isinstance(event, directory.LISTENS_TO):
            self.is_directory_changed = True
        elif isinstance(event, webhooks.WebhookConfigured):
            self._hooks[event.project, event.name] = hook_of(event)
        elif isinstance(event, webhooks.WebhookDeleted):
            self._hooks[event.project, event.name] = None

    def _tell_publisher(self, event: access.PublisherCreated | access.PublisherDeleted) -> None:
        of = (event.project, event.name)
        if isinstance(event, access.PublisherDeleted):
            self._publishers[of] = None
            return
        self._publishers_made[event.project] += self.publisher(*of) is None
        self._publishers[of] = Login(
            public_key=event.public_key,
            expires_at_us=event.expires_at_us,
            durable_since_us=event.durable_since_us,
        )

    def is_taken(self, job: str) -> bool:
        """Whether the id is that of another job, as far as is remembered."""
        return job in self._admitted or job in self.state.live or job in self.state.outcomes

    def project_of(self, job: str) -> str:
        """Whose job it is that is live or ended a short while ago; empty when it is unknown."""
        state = self.state
        known = state.live.get(job) or state.outcomes.get(job)
        if known is None and job in self._admitted:
            return self._admitted[job].project
        return known.project if known is not None else ""

    def admitted_of(self, project: str) -> list[str]:
        """The project's jobs and groups that were admitted in this turn."""
        if not self._admitted_of[project]:
            return []
        return [name for name, of in self._admitted.items() if of.project == project]

    def admitted_under(self, project: str, key: str) -> str:
        """The project's job that was admitted under this key in this turn, the last; empty: none."""
        return self._under_key.get((project, key), "")

    def live_of(self, project: str) -> int:
        """How many jobs and groups of the project have not ended."""
        return self.state.live_of.get(project, 0) + self._admitted_of[project]

    def live_of_user(self, project: str, user: str) -> int:
        """How many of them are this user's."""
        known = self.state.live_of_user.get(project, {}).get(user, 0)
        return known + self._admitted_of_user[project, user]

    def is_stopped(self, group: str) -> bool:
        """Whether the group is cancelled, so that no more of its tasks are admitted."""
        return group in self._stopped

    def is_pausing(self, job: str) -> bool:
        """Whether the people of this live job want it paused."""
        group = self.state.live[job].group
        spread = self.state.spreading.get(group)
        is_to = spread is not None and job in spread.left
        known = spread.pausing if spread is not None and is_to else self.state.live[job].pausing
        return self._pausing.get(job, self._pausing.get(group, known))

    def is_any_pausing(self, group: str) -> bool:
        """Whether the people of this live job, or of any task of this live group, want it paused."""
        if self.is_pausing(group):
            return True
        tasks = self.state.groups[group].live if group in self.state.groups else {}
        if any(pausing and job in tasks for job, pausing in self._pausing.items()):
            return True
        if not tasks or group in self._pausing:
            return False
        spread = self.state.spreading.get(group)
        if spread is not None and spread.pausing and any(map(self.is_pausing, spread.left)):
            return True
        return any(map(self.is_pausing, index_of(self.state).pausing.get(group, ())))

    def is_told(self, job: str) -> bool:
        """Whether it was paused or resumed in this turn."""
        return job in self._pausing

    def is_ending(self, job: str) -> bool:
        """Whether this live job is to end."""
        return job in self._stopped or self.state.live[job].cancelling

    def is_erasing(self, project: str) -> bool:
        """Whether the project's keys are about to be dropped."""
        return project in self._erased or project in self.state.erasing

    def has_secret(self, project: str, name: str) -> bool:
        """Whether the project's jobs can name this secret."""
        if (project, name) in self._secrets:
            return True
        return project not in self._erased and name in self.state.secrets.get(project, {})

    def publisher(self, project: str, name: str) -> Login | None:
        """The login of this publisher; None when there is none of that name."""
        if (project, name) in self._publishers:
            return self._publishers[project, name]
        return self.state.publishers.get(project, {}).get(name)

    def logins_of(self, project: str) -> int:
        """How many logins of the project's publishers may be good, those of deleted ones included."""
        known = len(self.state.publishers.get(project, {}))
        return known + self._unexpired[project] + self._publishers_made[project]

    def durable_of(self, project: str) -> int:
        """How many publishers of the project (empty: of all) hear every outcome, however long away."""
        known = {
            (of, name): login
            for of, logins in self.state.publishers.items()
            for name, login in logins.items()
        }
        return sum(
            login is not None and login.durable_since_us > 0 and project in ("", of)
            for (of, _), login in (known | self._publishers).items()
        )

    @property
    def logins(self) -> int:
        """The same of all projects."""
        return self._logins_before + self._publishers_made.total()

    def key_holder(self, key: str) -> str:
        """Who signs in, or signed in, with this public key: `node n1`, `publisher ads/etl`, or that
        it was deleted; empty when nobody does.
        """
        for node, member in self._members.items():
            if member is not None and member.public_key == key:
                return f"node {node}"
        known = key_holders(self.state).get(key, "")
        if known and not (
            known.startswith("node ") and known.removeprefix("node ") in self._members
        ):
            return known
        for (project, name), made in self._publishers.items():
            if made is not None and made.public_key == key:
                return f"publisher {project}/{name}"
        gone = self.state.deleted.get(key)
        if gone is not None and gone.expires_at_us > self.now_us:
            return DELETED_PUBLISHER
        return DELETED_NODE if key in self.state.revoked else ""

    @cached_property
    def _unexpired(self) -> Counter[str]:
        """By project, the deleted publishers whose logins are good still."""
        deleted = self.state.deleted.values()
        return Counter(gone.project for gone in deleted if gone.expires_at_us > self.now_us)

    @cached_property
    def _logins_before(self) -> int:
        return sum(map(len, self.state.publishers.values())) + self._unexpired.total()

    @cached_property
    def services_of(self) -> Counter[str]:
        """How many services have each department or project as their home."""
        return Counter(map(home_of, filter(is_service, self.state.directory.users)))

    @cached_property
    def members_in(self) -> Counter[str]:
        """How many members have roles of their own in each scope."""
        given = self.state.directory.given.values()
        return Counter(scope for grants in given for scope in {grant.scope for grant in grants})

    def token(self, token: str) -> Token | None:
        """The join token of this id."""
        return self._tokens[token] if token in self._tokens else self.state.tokens.get(token)

    def used_by(self, token: str) -> dict[str, str]:
        """The keys that proved it, and the node of each, the first first."""
        known = self.state.tokens.get(token)
        return {**(known.used_by if known else {}), **self._used.get(token, {})}

    def member(self, node: str) -> Member | None:
        """Who is this node, or waits to be."""
        return self._members[node] if node in self._members else self.state.members.get(node)

    @property
    def members(self) -> int:
        """How many there are, at most: those of this turn are counted as new."""
        return len(self.state.members) + len(self._members)

    def volume(self, name: str) -> volumes.Volume | None:
        """The volume of that name."""
        if name in self._volumes:
            return self._volumes[name]
        return self.state.volumes.get(name)

    def jobs_with(self, volume: str) -> list[str]:
        """The live jobs and groups that have this volume, in order of their ids."""
        own = index_of(self.state).with_volume.get(volume, ())
        new = (name for name, of in self._admitted.items() if volume in of.gang.volumes)
        return sorted((*own, *new))

    def template(self, project: str, name: str) -> templates.Template | None:
        """The template of that name that is the project's (empty: everybody's)."""
        if (project, name) in self._templates:
            return self._templates[project, name]
        kept = self.state.templates.get(project, {}).get(name)
        return kept.template if kept is not None else None

    def hook(self, project: str, name: str) -> Hook | None:
        """The project's webhook of that name."""
        if (project, name) in self._hooks:
            return self._hooks[project, name]
        return self.state.hooks.get(project, {}).get(name)

    @property
    def hooks(self) -> int:
        """How many webhooks there are, at most: those of this turn are counted as new."""
        return self._hooks_before + len(self._hooks)

    @cached_property
    def _hooks_before(self) -> int:
        return sum(map(len, self.state.hooks.values()))

    def hooks_of(self, project: str) -> int:
        """How many webhooks the project has."""
        known = dict.fromkeys(self.state.hooks.get(project, ()), True)
        told = {name: hook is not None for (of, name), hook in self._hooks.items() if of == project}
        return sum((known | told).values())


def hook_of(event: webhooks.WebhookConfigured) -> Hook:
    """A webhook as it is kept at first."""
    return Hook(webhook=event.webhook, secret=event.secret, secret_key=event.secret_key)


def token_of(event: members.TokenCreated) -> Token:
    """A new token, as it is kept."""
    return Token(
        digest=event.digest,
        uses=event.uses,
        expires_at_us=event.expires_at_us,
        auto_approve=event.auto_approve,
    )


def member_of(event: members.JoinWaiting | members.MemberAdmitted) -> Member:
    """A machine that waits or was let in, as it is kept."""
    return Member(
        public_key=event.public_key,
        box_key=event.box_key,
        token=event.token,
        host=event.host,
        approved=isinstance(event, members.MemberAdmitted),
    )
