"""Answers as they come out of a connection: of memory, of files, of both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import types
from pathlib import Path

import pytest
import uvicorn
import uvloop

from server import asgi, errors, limits
from server.transport import connection, cycle
from storage import disk, model
from storage import errors as storage_errors
from tests.kit.waits import WAIT_SECONDS

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LOOPS = pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])


class Answering:
    """An application that answers each request with the next of some responses."""

    def __init__(self, *responses: asgi.Response, files: asgi.FileReader | None = None) -> None:
        self.responses = list(responses)
        self.files = files or disk.Disk()
        self.raised: list[BaseException] = []
        self.writers: list[object] = []

    async def __call__(self, scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        self.writers.append(request.writer)
        sender = asgi.Sender(request, receive, send, files=self.files)
        try:
            await sender.send(self.responses.pop(0))
        except (storage_errors.BodyMissing, errors.ClientDisconnected) as error:
            self.raised.append(error)


@contextlib.asynccontextmanager
async def serving(app):
    """Serve app; yield its address and uvicorn's connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, http=connection.Connection, lifespan="off", log_level="critical"
        )
        running = uvicorn.Server(config)
        task = asyncio.create_task(running._serve(sockets=[listener]))
        await until(lambda: running.started)
        try:
            yield listener.getsockname(), running.server_state.connections
        finally:
            running.should_exit = running.force_exit = True
            await task


async def until(condition):
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for lies in uvicorn
            await asyncio.sleep(0.002)


async def answer_of(reader):
    """Read one answer: its head's lines and its body."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)).split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in head[1:] if line)
    return head, await asyncio.wait_for(
        reader.readexactly(int(fields[b"content-length"])), WAIT_SECONDS
    )


def file_of(path, size_bytes):
    data = os.urandom(size_bytes)
    path.write_bytes(data)
    return data, lambda offset, length: model.FileSlice(path=path, offset=offset, length=length)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@LOOPS
def test_pieces_of_memory_and_files_arrive_in_order_and_the_connection_serves_on(tmp_path, runner):
    data, part = file_of(tmp_path / "a", 9 << 20)
    other, part_of_other = file_of(tmp_path / "b", 1000)
    size_bytes = len(data)
    pieces = (b"first", part(3, size_bytes - 3), b"", part_of_other(10, 20), b"last", part(0, 1))
    whole = b"first" + data[3:] + other[10:30] + b"last" + data[:1]
    app = Answering(
        asgi.Response(200, (("x-a", "b"),), pieces),
        asgi.Response(404, (), b"none"),
        asgi.Response(206, (), (part(size_bytes - 7, 7),)),
        asgi.Response(200, (), (b"one piece",)),
        asgi.Response(200, (), ()),
    )

    async def talk():
        async with serving(app) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            answers = []
            for _ in range(5):
                writer.write(GET)
                answers.append(await answer_of(reader))
            writer.close()
            return answers

    answers = runner(talk())
    assert [body for _, body in answers] == [whole, b"none", data[-7:], b"one piece", b""]
    assert [head[0] for head, _ in answers] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 404 Not Found",
        b"HTTP/1.1 206 Partial Content",
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK",
    ]
    assert b"x-a: b" in answers[0][0]
    assert None not in app.writers


@LOOPS
def test_pipelined_requests_are_answered_in_their_order(tmp_path, runner):
    data, part = file_of(tmp_path / "a", 3 << 20)
    whole, pieces = b"m" * (16 << 20), (part(0, 3 << 20),)
    view = memoryview(bytearray(b"v" * (9 << 20))).toreadonly()
    bodies = (whole, pieces, view, (b"some", view[:7]))
    app = Answering(*[asgi.Response(200, (), body) for body in bodies * 2])

    async def talk():
        async with serving(app) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(GET * 8)
            await asyncio.sleep(0)
            bodies = [(await answer_of(reader))[1] for _ in range(8)]
            writer.close()
            return bodies

    assert runner(talk()) == [whole, data, bytes(view), b"somevvvvvvv"] * 2


@pytest.mark.parametrize(
    ("request_bytes", "said"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", b"connection: close"),
        (b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", b"connection: close"),
    ],
)
@pytest.mark.parametrize("body_type", ["memory", "file"])
def test_an_answer_that_is_the_last_says_so_and_ends_the_connection(
    tmp_path, request_bytes, said, body_type
):
    data, part = file_of(tmp_path / "a", 2 << 20)
    body = data if body_type == "memory" else (part(0, 2 << 20),)

    async def talk():
        async with serving(Answering(asgi.Response(200, (), body))) as (address, connections):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request_bytes)
            head, received = await answer_of(reader)
            rest = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            await until(lambda: not connections)
            writer.close()
            return head, received, rest

    head, received, rest = asyncio.run(talk())
    assert said in head
    assert (received, rest) == (data, b"")


def test_answer_to_head_has_the_length_alone(tmp_path):
    _, part = file_of(tmp_path / "a", 1000)
    app = Answering(asgi.Response(200, (), (part(0, 1000),)), asgi.Response(204))

    async def talk():
        async with serving(app) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(GET.replace(b"GET", b"HEAD"))
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
            writer.write(GET)
            empty = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
            writer.close()
            return head, empty

    head, empty = asyncio.run(talk())
    assert head == b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
    assert empty == b"HTTP/1.1 204 No Content\r\n\r\n"


@LOOPS
def test_a_client_that_leaves_within_a_file_is_noticed_and_leaves_no_descriptor(tmp_path, runner):
    _, part = file_of(tmp_path / "a", 64 << 20)
    app = Answering(asgi.Response(200, (), (part(0, 64 << 20),)))

    async def talk():
        async with serving(app) as (address, connections):
            before = open_files()
            reader, writer = await asyncio.open_connection(*address)
            writer.write(GET)
            await reader.readexactly(100_000)
            writer.transport.abort()
            await until(lambda: app.raised and not connections)
            await until(lambda: open_files() <= before)

    runner(talk())
    assert [type(error) for error in app.raised] == [errors.ClientDisconnected]


@LOOPS
def test_a_client_that_leaves_is_no_line_in_the_log(tmp_path, runner, caplog):
    class Reset(disk.Disk):
        def send_at(self, descriptor, offset, count, *, to):
            raise ConnectionResetError

    _, part = file_of(tmp_path / "a", 1000)
    app = Answering(asgi.Response(200, (), (part(0, 1000),)), files=Reset())

    async def talk():
        async with serving(app) as (address, connections):
            with logging_to(caplog.handler):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(GET)
                with contextlib.suppress(ConnectionError):
                    await asyncio.wait_for(reader.read(), WAIT_SECONDS)
                await until(lambda: app.raised and not connections)
                writer.close()

    runner(talk())
    assert [type(error) for error in app.raised] == [errors.ClientDisconnected]
    assert caplog.messages == []


@contextlib.contextmanager
def logging_to(handler):
    """Let handler have what the transport says."""
    logger = logging.getLogger("boathouse.transport")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@LOOPS
def test_what_is_no_request_is_answered_behind_the_whole_answer_before_it(tmp_path, runner):
    data, part = file_of(tmp_path / "a", 64 << 20)
    app = Answering(asgi.Response(200, (), (part(0, 64 << 20),)))

    async def talk():
        async with serving(app) as (address, connections):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
            (only,) = connections
            await until(lambda: only._blocked is not None)
            writer.write(b"no request\r\n\r\n")
            body = await asyncio.wait_for(reader.readexactly(len(data)), WAIT_SECONDS)
            rest = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            await until(lambda: not connections)
            return body, rest

    assert runner(talk()) == (data, connection.INVALID)
    assert not app.raised


@pytest.mark.parametrize("requests", [1, 2])
@LOOPS
def test_a_reader_that_stops_within_a_file_is_cut_off_and_a_slow_one_is_not(
    tmp_path, runner, requests
):
    data, part = file_of(tmp_path / "a", 64 << 20)
    app = Answering(asgi.Response(200, (), (part(0, 64 << 20),)))

    async def talk():
        async with serving(app) as (address, connections):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(GET * requests)
            await reader.readuntil(b"\r\n\r\n")
            (only,) = connections
            now = 0.0
            taken = b""
            for _ in range(4):
                await until(lambda: only._blocked is not None)
                now += 59
                only.look(now=now, idle_seconds=60)
                taken += await reader.readexactly(4 << 20)
            await settled(only)
            for seconds in (0, 61):
                now += seconds
                only.look(now=now, idle_seconds=60)
            await until(lambda: app.raised and not connections)
            writer.close()
            return taken

    assert runner(talk()) == data[: 16 << 20]
    assert [type(error) for error in app.raised] == [errors.ClientDisconnected]


async def settled(only):
    before, same = None, 0
    while same < 3:
        now = only._owed()
        before, same = now, same + 1 if now == before and now is not None else 0
        await asyncio.sleep(0.05)


def test_a_file_that_is_cut_short_ends_the_connection(tmp_path):
    data, part = file_of(tmp_path / "a", 1000)
    app = Answering(asgi.Response(200, (), (part(0, 1001),)))

    async def talk():
        async with serving(app) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(GET)
            received = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return received

    head, _, body = asyncio.run(talk()).partition(b"\r\n\r\n")
    assert b"content-length: 1001" in head
    assert body == data
    assert [type(error) for error in app.raised] == [storage_errors.BodyMissing]


def test_other_tasks_get_a_turn_between_two_steps_of_a_file():
    turns = [0]
    steps = []

    class Disk(disk.Disk):
        def send_at(self, descriptor, offset, count, *, to):
            steps.append((turns[0], offset, count))
            return count

    async def count_turns():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def send():
        with contextlib.closing(Outlet()) as outlet:
            counting = asyncio.create_task(count_turns())
            each = cycle.Cycle(outlet, {"extensions": {}}, keep_alive=True, expects=False)
            size_bytes = 3 * limits.READ_BYTES + 1
            await each.begin(200, b"", size_bytes=size_bytes)
            piece = model.FileSlice(path=Path("large"), offset=5, length=size_bytes)
            await each.send_file(Disk(), -1, piece)
            counting.cancel()

    asyncio.run(send())
    assert [(offset, count) for _, offset, count in steps] == [
        (5 + number * limits.READ_BYTES, count)
        for number, count in enumerate([limits.READ_BYTES] * 3 + [1])
    ]
    assert len({turn for turn, _, _ in steps}) == len(steps)


class Outlet:
    """A plain connection that takes everything at once, and notes the flags of what is sent."""

    is_plain = True
    is_writable = True

    def __init__(self):
        self.flags = ()
        self.near, self.far = socket.socketpair()
        self.transport = types.SimpleNamespace(
            is_closing=lambda: False, get_write_buffer_size=lambda: 0
        )

    def close(self):
        self.near.close()
        self.far.close()

    def duplicate(self):
        return self

    def fileno(self):
        return self.near.fileno()

    def send(self, data, flags):
        self.flags += (flags,)
        return len(data)

    async def drain(self):
        pass

    async def turn(self):
        await asyncio.sleep(0)

    def resume_reading(self):
        pass

    def finish(self, _):
        pass


@pytest.mark.parametrize("body", [(), (b"",)])
def test_the_head_of_an_empty_answer_waits_for_no_body(body):
    async def send():
        with contextlib.closing(Outlet()) as outlet:
            each = cycle.Cycle(outlet, {"extensions": {}}, keep_alive=True, expects=False)
            await each.begin(200, b"content-length: 0\r\n", size_bytes=0)
            for piece in body:
                await each.write(piece)
            each.end()
            return outlet.flags

    assert asyncio.run(send()) == (0,)
