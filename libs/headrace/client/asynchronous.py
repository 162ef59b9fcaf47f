"""The same client for programs that await.

Rule: nothing is written twice. Every call is `Client`'s own, in a thread with a connection of its
own; at most `CALLS_MAX` run at a time, the others wait their turn.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from headrace.client.client import Client
from headrace.client.config import DEFAULT_PROJECT, context
from headrace.client.errors import ClientError, Closed

CALLS_MAX = 16
READ_AHEAD_MAX = 500  # events or pieces of a stream that nobody has taken yet

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(method, *args, **kwargs)

    return call


def _streamed(
    method: Callable[Concatenate[Client, P], Iterator[T]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    @functools.wraps(method)
    def stream(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        client = self._client.copy()
        return _iterated(client, lambda: method(client, *args, **kwargs))

    return stream


class AsyncClient:
    """`Client`, awaited: the same names, arguments, answers and errors.

    `events` and `logs` are iterated with `async for`; leaving the loop ends the stream.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        project: str = DEFAULT_PROJECT,
        certificate: str = "",
        person: str = "",
    ) -> None:
        self._client = Client(url, token, project, certificate, person)
        self._free: list[Client] = []
        self._threads = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="headrace-client")

    @classmethod
    def from_config(cls, *, url: str = "", token: str = "", project: str = "") -> Self:
        """As configured: options, then environment, then the config file."""
        return cls(*context(url=url, token=token, project=project))

    @property
    def project(self) -> str:
        """The project of job files that name none."""
        return self._client.project

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; nothing can be asked afterwards."""
        self._threads.shutdown(wait=False)
        while self._free:
            self._free.pop().close()

    submit = _awaited(Client.submit)
    jobs = _awaited(Client.jobs)
    job = _awaited(Client.job)
    why = _awaited(Client.why)
    wait = _awaited(Client.wait)
    outputs = _awaited(Client.outputs)
    cancel = _awaited(Client.cancel)
    pause = _awaited(Client.pause)
    resume = _awaited(Client.resume)
    nodes = _awaited(Client.nodes)
    node = _awaited(Client.node)
    change_node = _awaited(Client.change_node)
    create_join_token = _awaited(Client.create_join_token)
    join_tokens = _awaited(Client.join_tokens)
    revoke_join_token = _awaited(Client.revoke_join_token)
    approve_node = _awaited(Client.approve_node)
    projects = _awaited(Client.projects)
    apply = _awaited(Client.apply)
    document = _awaited(Client.document)
    delete = _awaited(Client.delete)
    set_secret = _awaited(Client.set_secret)
    create_publisher = _awaited(Client.create_publisher)
    renew_publisher = _awaited(Client.renew_publisher)
    pools = _awaited(Client.pools)
    volumes = _awaited(Client.volumes)
    templates = _awaited(Client.templates)
    template = _awaited(Client.template)
    secrets = _awaited(Client.secrets)
    publishers = _awaited(Client.publishers)
    delete_publisher = _awaited(Client.delete_publisher)
    trials = _awaited(Client.trials)
    usage = _awaited(Client.usage)
    webhooks = _awaited(Client.webhooks)
    entrance = _awaited(Client.entrance)
    whoami = _awaited(Client.whoami)
    users = _awaited(Client.users)
    set_user = _awaited(Client.set_user)
    set_service = _awaited(Client.set_service)
    remove_user = _awaited(Client.remove_user)
    roles = _awaited(Client.roles)
    grant_role = _awaited(Client.grant_role)
    revoke_role = _awaited(Client.revoke_role)
    tokens = _awaited(Client.tokens)
    create_token = _awaited(Client.create_token)
    revoke_token = _awaited(Client.revoke_token)
    erase = _awaited(Client.erase)
    rebuild = _awaited(Client.rebuild)
    status = _awaited(Client.status)
    events = _streamed(Client.events)
    logs = _streamed(Client.logs)

    async def _call(
        self, method: Callable[Concatenate[Client, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        client = self._free.pop() if self._free else self._client.copy()
        client.after_position = self._client.after_position
        asking = functools.partial(method, client, *args, **kwargs)
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, asking)
        except asyncio.CancelledError:
            raise  # the thread goes on with this connection: it is nobody else's
        except ClientError:
            self._free.append(client)
            raise
        self._client.after_position = client.after_position
        self._free.append(client)
        return answer


async def _iterated(client: Client, begin: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """What a stream gives, read ahead by a thread of its own."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[list[T] | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(READ_AHEAD_MAX)

    def pump() -> None:
        end: BaseException | None = None
        try:
            for piece in begin():
                loop.call_soon_threadsafe(pieces.put_nowait, [piece])
                room.acquire()
        except Closed:
            return
        except Exception as error:
            end = error
        loop.call_soon_threadsafe(pieces.put_nowait, end)

    threading.Thread(target=pump, daemon=True).start()
    try:
        while isinstance(piece := await pieces.get(), list):
            room.release()
            yield piece[0]
        if piece is not None:
            raise piece
    finally:
        client.end_streams()
        room.release()
