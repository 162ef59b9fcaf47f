"""Tells webhooks what happens to their projects' jobs, one after the other in the order of the log.

Rule: at least once, in order, nothing skipped. A message that is not taken is tried again, later each
time; its webhook waits meanwhile and the others do not. A project has so many posts under way at a
time, so that its silent endpoints delay nobody else's. How far a webhook has come is recorded now
and then, and whoever leads next goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor

from headrace.admission.posting import Message, NotTaken, Post
from headrace.admission.state import Hook
from headrace.admission.webhook_requests import secret_of
from headrace.events.webhooks import Webhook, WebhookFailing, WebhookReached, WebhookStopped
from headrace.runtime.limits import limit_of
from headrace.runtime.pipelines.outcomes import Outcome, Outcomes
from headrace.runtime.service import Runtime
from headrace.store.chained import read_chained
from headrace.store.interface import Stored, StoreError
from headrace.vault.project_keys import ProjectKeys

POSTS_PER_PROJECT_MAX = 4  # at a time
POST_S_MAX = 30.0  # for one try, with everything
PAGES_MAX = 16  # of the log, read once for all webhooks that have come equally far
READ_EVENTS = 500  # of the log, for one webhook
LOOK_S = 1.0  # how often it is looked whether the log has grown
RECORD_S = 30.0  # how often it is recorded how far a webhook has come: so much may be told again
PASSED_EVENTS = 10_000  # that were of no interest to it: worth recording
LOUD_TRIES = 3  # tries that nobody hears of
WAITS_S = (1.0, 5.0, 30.0, 120.0, 600.0, 3_600.0)  # between tries; the last for ever
FAILING_S_MAX = 3 * 86_400  # then it is stopped

_LOG = logging.getLogger("headrace.webhooks")


class Courier:
    """One task per webhook, as long as this instance leads."""

    def __init__(self, runtime: Runtime, keys: ProjectKeys) -> None:
        self._runtime, self._keys = runtime, keys
        self.outcomes = Outcomes(runtime.store)
        self._per_project = limit_of(
            "HEADRACE_WEBHOOK_POSTS_PER_PROJECT_MAX", POSTS_PER_PROJECT_MAX
        ).value
        # A webhook has one post at a time. With a thread for each, none waits in the pool's own line,
        # which knows no projects; a thread is made when it is needed.
        threads = max(1, runtime.state.setting("webhooks_max"))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="webhook")
        self._posts: dict[str, asyncio.Semaphore] = {}  # by project
        self._pages: dict[int, asyncio.Task[list[Stored]]] = {}
        self._rounds: dict[tuple[str, str], tuple[Webhook, asyncio.Task[None]]] = {}

    def follow(self) -> None:
        """Begin with webhooks that are new, changed or resumed, leave those that are gone."""
        hooks = self._runtime.state.hooks_by_name()
        for name, (webhook, task) in list(self._rounds.items()):
            if name not in hooks or hooks[name].webhook != webhook or task.done():
                task.cancel()
                del self._rounds[name]
        projects = {project for project, _ in hooks}
        self._posts = {of: posts for of, posts in self._posts.items() if of in projects}
        for name, hook in hooks.items():
            if name not in self._rounds and not hook.stopped:
                task = asyncio.create_task(_Round(self, name, hook).run())
                self._rounds[name] = hook.webhook, task

    async def close(self) -> None:
        """Leadership ended."""
        tasks = [task for _, task in self._rounds.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def runtime(self) -> Runtime:
        """What it reads, and records with."""
        return self._runtime

    async def post(self, name: tuple[str, str], hook: Hook, outcome: Outcome) -> None:
        """One try. Raises `NotTaken`."""
        try:
            secret = await secret_of(*name, hook.secret, hook.secret_key, self._keys)
        except StoreError as error:
            raise NotTaken("its secret cannot be read now") from error
        if secret is None:
            raise NotTaken("its project was erased: apply it again", is_final=True)
        at_s = self._runtime.now_us() // 1_000_000
        message = Message(hook.webhook.url, outcome, secret, at_s, hook.webhook.private)
        project, _ = name
        if project not in self._posts:
            self._posts[project] = asyncio.Semaphore(self._per_project)
        async with self._posts[project]:
            await self._send(Post(message))

    async def events_after(self, position: int) -> list[Stored]:
        """The next events of the log. Raises `StoreError`."""
        page = self._pages.get(position)
        if page is None:
            reading = read_chained(self._runtime.store, position, READ_EVENTS)
            page = self._pages[position] = asyncio.ensure_future(reading)
            if len(self._pages) > PAGES_MAX:
                del self._pages[next(iter(self._pages))]
        try:
            events = await asyncio.shield(page)
        except StoreError:
            self._pages.pop(position, None)
            raise
        if not events:
            self._pages.pop(position, None)
        return events

    async def _send(self, post: Post) -> None:
        """Whoever stops waiting ends the post too: its place is for another one. Raises `NotTaken`."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(POST_S_MAX, post.abort)
        try:
            await loop.run_in_executor(self._threads, post.run)
        except asyncio.CancelledError:
            post.abort()
            raise
        finally:
            timer.cancel()


class _Round:
    """One webhook's way along the log."""

    def __init__(self, courier: Courier, name: tuple[str, str], hook: Hook) -> None:
        self._courier, self._name, self._hook = courier, name, hook
        self._runtime = courier.runtime
        self._now_s = asyncio.get_running_loop().time
        self._reached = self._recorded = hook.reached
        self._recorded_s = self._now_s()
        self._has_told = False

    async def run(self) -> None:
        try:
            is_on = True
            while is_on:
                is_on = await self._go_on()
                await asyncio.sleep(LOOK_S)
        finally:
            self._record(at_once=True)

    async def _go_on(self) -> bool:
        """Tell what the log has for it now; whether to look again."""
        while self._reached < self._runtime.position:
            try:
                events = await self._courier.events_after(self._reached)
            except StoreError as error:
                _LOG.warning("log not reached webhook=%s/%s error=%s", *self._name, error)
                break
            for event in events:
                is_ours = event.project == self._name[0] and event.type.startswith(
                    self._hook.webhook.types
                )
                try:
                    outcome = await self._outcome_of(event) if is_ours else None
                except StoreError as error:  # it is looked at again
                    _LOG.warning("log not reached webhook=%s/%s error=%s", *self._name, error)
                    return True
                if outcome is not None and not await self._told(event.position, outcome):
                    return False
                self._reached = event.position
                self._has_told |= outcome is not None
            self._record()
        self._record()
        return True

    async def _outcome_of(self, event: Stored) -> Outcome | None:
        """One event that cannot be told must not keep the others from their project. Raises
        `StoreError`.
        """
        try:
            return await self._courier.outcomes.of(event)
        except ValueError as error:
            _LOG.warning("event not told position=%d error=%s", event.position, error)
            return None

    async def _told(self, position: int, outcome: Outcome) -> bool:
        """Try until it is taken; False when it is given up, which the log says then."""
        began_s, tries = self._now_s(), 0
        while True:
            try:
                await self._courier.post(self._name, self._hook, outcome)
            except NotTaken as error:
                tries += 1
                given_up = error.is_final or self._now_s() - began_s > FAILING_S_MAX
                self._say(position, str(error), tries, given_up=given_up)
                if given_up:
                    return False
                await asyncio.sleep(WAITS_S[min(tries, len(WAITS_S)) - 1])
            else:
                if tries >= LOUD_TRIES:
                    self._reached, self._has_told = position, True
                    self._record(at_once=True)
                return True

    def _say(self, position: int, reason: str, tries: int, *, given_up: bool) -> None:
        project, name = self._name
        _LOG.warning(
            "not taken webhook=%s/%s position=%d reason=%s", project, name, position, reason
        )
        if given_up:
            said = WebhookStopped(name=name, project=project, at=position, reason=reason)
            self._runtime.record(said)
        elif tries == LOUD_TRIES:
            failing = WebhookFailing(name=name, project=project, at=position, reason=reason)
            self._runtime.record(failing)

    def _record(self, *, at_once: bool = False) -> None:
        """How far it has come, if that is worth an event: what was told is, and a long way. Else a
        platform without jobs would write for ever about what it wrote.
        """
        is_due = at_once or self._now_s() - self._recorded_s > RECORD_S
        if not is_due or not (self._has_told or self._reached - self._recorded > PASSED_EVENTS):
            return
        project, name = self._name
        self._runtime.record(WebhookReached(name=name, project=project, reached=self._reached))
        self._recorded, self._recorded_s, self._has_told = self._reached, self._now_s(), False
