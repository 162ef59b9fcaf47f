"""Everything a gateway can be asked, as one class."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.asking import Document, encoded, fields_of, job_path, part
from headrace.client.config import context
from headrace.client.connection import path_with
from headrace.client.entering import Entering
from headrace.client.model import (
    Answer,
    Description,
    Happening,
    HappeningPage,
    JobPage,
    JobRow,
    LogPiece,
    NodeRow,
    ProjectRow,
    Status,
)
from headrace.client.people import People
from headrace.client.protocol import LOGS_END, LOGS_HEARTBEAT
from headrace.client.reports import Reports
from headrace.client.resuming import OnBreak, resumed
from headrace.scheduling.explanation import Explanation

if TYPE_CHECKING:
    from headrace.trust import join_token


class Client(Reports, People, Entering):
    """Asks the gateway at `url`, which has the one certificate in that file when there is one, for a
    `person` when it is a service account that acts for people.

    Every call raises `ClientError`: `Refused`, `NotFound`, `Unreachable`. Not for several threads at
    once; `copy` makes one for another thread.
    """

    @classmethod
    def from_config(cls, *, url: str = "", token: str = "", project: str = "") -> Client:
        """As configured: options, then environment, then the config file."""
        return cls(*context(url=url, token=token, project=project))

    @property
    def url(self) -> str:
        """The gateway's address."""
        return self._context.url

    @property
    def after_position(self) -> int:
        """The position of the log that reads have reached at least: that of the last change of this
        client, or of one that it is told of.
        """
        return self._http.after_position

    @after_position.setter
    def after_position(self, position: int) -> None:
        self._http.after_position = max(self._http.after_position, position)

    def copy(self) -> Client:
        """Another client of the same gateway, with a connection of its own."""
        return Client(*self._context)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._http.close()

    def end_streams(self) -> None:
        """End every stream of this client, from another thread: who reads one gets `Closed`."""
        self._http.end_streams()

    def submit(self, job: Document, *, key: str = "") -> Answer:
        """Submit a job file (a mapping, or JSON); the answer has the job's id. Sent again under
        the same key until it is accepted or refused. One that names no project is this client's; a
        `workdir` that is a folder here travels with the job.
        """
        key = key or uuid.uuid4().hex
        fields = fields_of(job)
        document = job if fields is None else self._sent_ahead({"project": self.project, **fields})
        return self._change("POST", "/v1/jobs", encoded(document), lambda: key)

    def jobs(self, /, **wanted: str | int) -> JobPage:
        """Jobs by `project`, `user`, `state`, `group`; `ended` how many of those that ended;
        `limit` and `before` page through them, or in the order `sort` (`-gpu-time`) `cursor`.
        """
        return self._get(path_with("/v1/jobs", wanted), JobPage)

    def job(self, job: str) -> Description:
        """One job in full, by its id or an unambiguous prefix of it."""
        return self._get(f"/v1/jobs/{job_path(job)}", Description)

    def why(self, job: str) -> Explanation:
        """Why a job waits, or what it does, as of now."""
        return self._get(f"/v1/jobs/{job_path(job)}/why", Explanation)

    def wait(self, job: str, *, on_break: OnBreak = None) -> JobRow:
        """Return once the job has ended, with how: its `state` and `exit_code`; over broken
        connections, of which `on_break` is told.
        """
        row = self.job(job).job
        if row.ended_at_us:
            return row
        for event in self.events(job=row.job, follow=True, on_break=on_break):
            is_its_own = event.data.get("job") == row.job
            if is_its_own and event.type in ("job.finished.v1", "job.refused.v1"):
                self.after_position = event.position
                break
        return self.job(row.job).job

    def outputs(self, job: str, folder: Path) -> list[str]:
        """Fetch what an ended job left behind into `folder`; the paths, below it."""
        from headrace.client.outputs import fetch_outputs

        return fetch_outputs(self._http, f"/v1/jobs/{job_path(job)}/outputs", folder)

    def cancel(self, job: str, *, now: bool = False, key: str = "") -> Answer:
        """End a job; `now` without asking its workers first."""
        key = key or uuid.uuid4().hex
        path = f"/v1/jobs/{job_path(job)}{'?now=true' if now else ''}"
        return self._change("DELETE", path, None, lambda: key)

    def pause(self, job: str, *, key: str = "") -> Answer:
        """Have a job leave its GPUs until it is resumed."""
        key = key or uuid.uuid4().hex
        return self._change("POST", f"/v1/jobs/{job_path(job)}/pause", None, lambda: key)

    def resume(self, job: str, *, key: str = "") -> Answer:
        """Let a paused job compete for GPUs again."""
        key = key or uuid.uuid4().hex
        return self._change("POST", f"/v1/jobs/{job_path(job)}/resume", None, lambda: key)

    def logs(
        self,
        job: str,
        *,
        rank: int | None = None,
        role: str = "",
        process: int | None = None,
        attempt: int | None = None,
        follow: bool = False,
        tail_bytes: int = 0,
        on_break: OnBreak = None,
    ) -> Iterator[LogPiece]:
        """What its workers wrote, or the last `tail_bytes` of each process; with `follow` until it has
        ended, over broken connections, of which `on_break` is told.
        """
        query: dict[str, int | str | None] = {"rank": rank, "process": process, "attempt": attempt}
        query |= {"role": role, "follow": follow, "tail_bytes": tail_bytes}
        offsets: dict[tuple[int, int, int], int] = {}
        pieces = msgspec.json.Decoder(LogPiece)

        def lines() -> Iterator[bytes]:
            known = ",".join(f"{a}.{r}.{p}.{at}" for (a, r, p), at in offsets.items())
            path = f"/v1/jobs/{job_path(job)}/logs"
            return self._http.stream(path, {**query, "offsets": known}, {})

        for line in resumed(lines, on_break, end=LOGS_END):
            if line == LOGS_HEARTBEAT:
                continue
            piece = pieces.decode(line)
            offsets[piece.attempt, piece.rank, piece.process] = piece.offset
            yield piece

    def events(
        self,
        *,
        after: int | None = None,
        since_us: int = 0,
        job: str = "",
        project: str = "",
        type_prefix: str = "",
        follow: bool = False,
        on_break: OnBreak = None,
    ) -> Iterator[Happening]:
        """Events after a position or a time; with `follow` for ever, over broken connections, of
        which `on_break` is told.
        """
        query = {"job": job, "project": project, "type": type_prefix, "since_us": since_us}
        if not follow:
            yield from self._pages(after, query)
            return
        position = after
        decoder = msgspec.json.Decoder(Happening)

        def lines() -> Iterator[bytes]:
            headers = {"Accept": "text/event-stream"}
            if position is not None:
                headers["Last-Event-ID"] = str(position)
            return self._http.stream("/v1/events", query, headers)

        for line in resumed(lines, on_break):
            if line.startswith(b"id:"):
                position = int(line[3:])
            elif line.startswith(b"data:"):
                yield decoder.decode(line[5:])

    def nodes(self) -> list[NodeRow]:
        """Every node."""
        return self._list("/v1/nodes", NodeRow)

    def node(self, node: str) -> NodeRow:
        """One node."""
        return self._get(f"/v1/nodes/{part(node)}", NodeRow)

    def change_node(self, node: str, change: str, *, deadline_us: int = 0) -> Answer:
        """Cordon, uncordon, drain, fence, delete or forget it. Jobs on a node that is drained may run
        on for `deadline_us` before they are asked to move.
        """
        body = {"change": change, "deadline_us": deadline_us} if deadline_us else {"change": change}
        return self._once("POST", f"/v1/nodes/{part(node)}", body)

    def create_join_token(
        self, *, uses: int = 1, lasts_s: int = 3600, auto_approve: bool = False
    ) -> join_token.JoinToken:
        """A new token that lets machines join. Its secret is made here, and known here alone."""
        from headrace.trust import join_token

        token = join_token.new()
        limits = {"uses": uses, "lasts_s": lasts_s, "auto_approve": auto_approve}
        body = {"token": token.id, "digest": token.digest, **limits}
        return token._replace(pin=self._once("POST", "/v1/join-tokens", body).pin)

    def join_tokens(self) -> list[join_token.JoinTokenRow]:
        """Join tokens, the latest first."""
        from headrace.trust import join_token

        return self._list("/v1/join-tokens", join_token.JoinTokenRow)

    def revoke_join_token(self, token: str) -> Answer:
        """Take a join token back, by its id."""
        return self._once("DELETE", f"/v1/join-tokens/{part(token)}", None)

    def approve_node(self, node: str, *, approved: bool = True) -> Answer:
        """Let the machine in that waits to be this node, or turn it away."""
        body = {"approved": approved}
        return self._once("POST", f"/v1/nodes/{part(node)}/approval", body)

    def projects(self) -> list[ProjectRow]:
        """Departments and projects."""
        return self._list("/v1/projects", ProjectRow)

    def apply(self, document: Document) -> Answer:
        """Create or change a department or project; `change` says what became of it."""
        return self._once("PUT", "/v1/documents", document)

    def document(self, kind: str, name: str = "", *, project: str = "") -> dict[str, Any]:
        """The document of a department, project, pool, volume, template or webhook (the last two of
        `project`), or of `scheduling`, as it was applied. Raises `NotFound`.
        """
        words = "/".join(part(word) for word in (kind, name) if word)
        path = path_with(f"/v1/documents/{words}", {"project": project})
        return self._get(path, dict[str, Any])

    def delete(self, kind: str, name: str = "", *, project: str = "") -> Answer:
        """Delete a department, project, pool, volume, template or webhook (the last two of
        `project`), or the document of `scheduling`, which has no name.
        """
        words = "/".join(part(word) for word in (kind, name) if word)
        path = path_with(f"/v1/documents/{words}", {"project": project})
        return self._once("DELETE", path, None)

    def set_secret(self, name: str, value: bytes, *, project: str = "") -> Answer:
        """Set a secret of a project. A try of its own each time: setting it twice is the same."""
        path = f"/v1/secrets/{part(project or self.project)}/{part(name)}"
        return self._change("PUT", path, value, lambda: uuid.uuid4().hex)

    def create_publisher(
        self,
        name: str,
        public_key: str,
        signature: str,
        *,
        at_s: int,
        project: str = "",
        durable: bool = False,
    ) -> Answer:
        """Let the holder of an NKey publish the project's jobs; the answer has its JWT. The key
        signed (base64) `model.publisher_text` of the project, the name and `at_s`. A `durable` one
        also hears what happened while it was away.
        """
        proof = {"public_key": public_key, "at_s": at_s, "signature": signature}
        body = {"name": name, "project": project or self.project, "durable": durable, **proof}
        return self._once("POST", "/v1/publishers", body)

    def renew_publisher(
        self, name: str, public_key: str, signature: str, *, at_s: int, project: str = ""
    ) -> Answer:
        """A publisher's login anew, with its key alone; signed as for `create_publisher`."""
        path = f"/v1/publishers/{part(project or self.project)}/{part(name)}/credential"
        proof = {"public_key": public_key, "at_s": at_s, "signature": signature}
        return self._once("POST", path, proof)

    def erase(self, project: str) -> Answer:
        """Make what the project's jobs ran unreadable for ever."""
        return self._once("DELETE", f"/v1/projects/{part(project)}/data", None)

    def status(self) -> Status:
        """The platform in numbers."""
        return self._get("/v1/status", Status)

    def _sent_ahead(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """The job file with its folder's name, once the platform has the folder."""
        workdir = job.get("workdir")
        if not isinstance(workdir, str) or not os.path.isdir(workdir):
            return job  # a repository, a folder of the nodes, or for the platform to refuse
        from headrace.client.folders import send_folder
        from headrace.documents.workdir import (
            BUNDLE,  # with all documents, of which lists know none
        )

        name = send_folder(self._http, str(job["project"]), Path(workdir).absolute())
        return {**job, "workdir": f"{BUNDLE}{name}"}

    def _pages(self, after: int | None, query: Mapping[str, Any]) -> Iterator[Happening]:
        position = after
        while True:
            page = self._get(path_with("/v1/events", {**query, "after": position}), HappeningPage)
            yield from page.events
            if page.is_end or page.position == position:
                return
            position = page.position
