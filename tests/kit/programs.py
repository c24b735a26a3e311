"""The program that a user starts, inside the test's own process.

`opened` builds it over a folder; `serving` lets it answer on a free port in a thread; `Port` lets
it answer inside a test's own event loop. Requests go over a socket through the production HTTP
protocol. Clock and ids are the test's.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httptools
import uvicorn
import uvloop

from program import application, lifecycle
from server import config
from server.transport import connection
from storage import disk, opening

START_SECONDS = 120
MAP_SIZE_BYTES = 1 << 30
RESERVE_BYTES = 64 << 10
SETTINGS = dataclasses.replace(
    config.resolve({"data": "unused"}, {}, {}),
    access_key="ROOTKEY",
    secret_key="root-secret",
    sweep_interval_seconds=0,
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a program answered to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)


def users(documents_by_name: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, config.User]:
    """Users by name, each with a key pair made of it and these policy documents."""
    return {
        name: config.User(
            name=name,
            access_key=f"{name.upper()}KEY",
            secret_key=f"{name}-secret",
            policies=tuple(documents),
        )
        for name, documents in documents_by_name.items()
    }


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def random_id() -> str:
    return uuid.uuid4().hex


@contextmanager
def opened(
    folder: Path,
    *,
    now_ms: Callable[[], int] = wall_clock_ms,
    new_id: Callable[[], str] = random_id,
    users: Sequence[config.User] = (),
    on_disk: disk.Disk | None = None,
    **settings: Any,
) -> Iterator[tuple[application.Program, config.Config]]:
    """Build the program over a folder; close its storage at the end.

    on_disk: what writes the folder's files. settings: of the Config.
    """
    chosen = dataclasses.replace(SETTINGS, data=str(folder), users=tuple(users), **settings)
    storage = opening.open_storage(
        folder,
        disk=on_disk or disk.Disk(),
        now_ms=now_ms,
        new_id=new_id,
        map_size_bytes=MAP_SIZE_BYTES,
        reserve_bytes=RESERVE_BYTES,
    )
    try:
        yield application.build(chosen, storage, now_ms=now_ms, new_id=new_id), chosen
    finally:
        storage.close()


def listen() -> socket.socket:
    """A socket on a free port of this machine."""
    # With the protocol named, asyncio sets TCP_NODELAY on what it accepts.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    return listener


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A program that answers at a port, in a thread of its own."""

    port: int
    loop: asyncio.AbstractEventLoop

    def run(self, work: Any) -> Any:
        """Run a coroutine on the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(START_SECONDS)


@contextmanager
def serving(program: application.Program, settings: config.Config) -> Iterator[Serving]:
    """Serve as `mini.py` does while the block runs; the end drains."""
    listener = listen()
    started = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    ends: list[lifecycle.End] = []
    faults: list[BaseException] = []

    async def announce() -> None:
        loops.append(asyncio.get_running_loop())
        started.set()

    def live() -> None:
        try:
            uvloop.run(lifecycle.serve(program, settings, listener, announce, end_by=ends.append))
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            faults.append(error)
            started.set()

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    assert started.wait(START_SECONDS), "the server did not start"
    try:
        if not faults:
            yield Serving(port=listener.getsockname()[1], loop=loops[0])
    finally:
        if not faults:
            loops[0].call_soon_threadsafe(ends[0])
        thread.join(START_SECONDS)
        listener.close()
    assert not thread.is_alive(), "the server did not stop"
    if faults:
        raise faults[0]


@contextmanager
def answering(
    program: application.Program, settings: config.Config, runner: asyncio.Runner
) -> Iterator[Port]:
    """Answer inside the runner's loop, whenever it runs."""
    port = Port(program, settings)
    runner.run(port.open())
    try:
        yield port
    finally:
        runner.run(port.close())


class Port:
    """A program that answers inside the loop of an asyncio.Runner, and the client of it.

    Connections are kept and used again; each request that runs beside another has its own.
    """

    def __init__(self, program: application.Program, settings: config.Config) -> None:
        self._program = program
        self._settings = settings
        self._stack = contextlib.AsyncExitStack()
        self._address: tuple[str, int] = ("", 0)
        self._idle: list[_Client] = []

    async def open(self) -> None:
        """Begin to live: seeds, lifespan, port."""
        program = self._program
        await lifecycle.seed(self._settings, program.storage)
        app = program.application
        await self._stack.enter_async_context(app.router.lifespan_context(app))
        listening = uvicorn.Config(
            app,
            http=connection.Connection,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            log_config=None,
        )
        state = uvicorn.server.ServerState()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: connection.Connection(listening, state, {}), sock=listen()
        )
        self._address = self._server.sockets[0].getsockname()

    async def close(self) -> None:
        for client in self._idle:
            client.transport.close()
        self._server.close()
        await self._stack.aclose()

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """One request as it is. target: raw path and query."""
        head = [f"{method} {target} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        raw = "\r\n".join(head).encode() + b"\r\n\r\n" + body
        client = self._idle.pop() if self._idle else None
        if client is None or client.transport.is_closing():
            _, client = await asyncio.get_running_loop().create_connection(_Client, *self._address)
        answer = await client.ask(method, raw)
        if client.reusable:
            self._idle.append(client)
        return answer


class _Client(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.reusable = False

    async def ask(self, method: str, raw: bytes) -> Answer:
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._is_head = method == "HEAD"
        self.reusable = False
        self._answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self.transport.write(raw)
        return await self._answered

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("closed without an answer"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._is_head:
            self.on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and not self._answered.done():
            self.reusable = not self._is_head and self._parser.should_keep_alive()
            self._answered.set_result(
                Answer(status=status, headers=self._headers, body=b"".join(self._body))
            )
