"""Bodies that another process reads from the socket, and what follows them on the connection."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from pathlib import Path

import pytest
import uvicorn
import uvloop

from server import asgi, errors, limits, receiving
from server.transport import connection, watch
from storage.bodyfiles import BodyFile
from storage.disk import Disk
from tests.kit import intakes
from tests.kit.waits import WAIT_SECONDS

LOOPS = pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
MIB = 1 << 20
SIZES = [limits.INTAKE_BYTES_MIN + MIB, MIB - 1, MIB, MIB + 1, 5 * MIB + 17]
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Taking:
    """An application whose bodies others receive; it answers with how many bytes came.

    bodies: those that came whole. stretches: what others received of each. Mutable.
    """

    def __init__(self, folder: Path, *, start: receiving.Start | None = None) -> None:
        self.folder = folder
        self.receivers = receiving.Receivers(start or intakes.threads(Disk()))
        self.bodies: list[bytes] = []
        self.stretches: list[int] = []
        self.outcomes: list[str] = []
        self.files: list[BodyFile] = []

    async def __call__(self, scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        body = bytearray()
        status = 200
        try:
            if request.content_length is not None:
                body = await self._take_over(request, body)
            async for data in request.chunks():
                body += data
                if request.content_length is not None:
                    body = await self._take_over(request, body)
        except errors.BodyStalled:
            status = 400
        except errors.ClientDisconnected:
            self.outcomes.append("disconnected")
            return
        except receiving.ProcessLost:
            self.outcomes.append("lost")
            status = 500
        self.outcomes.append("whole" if status == 200 else "stalled")
        self.bodies.append(bytes(body))
        answer = b"%d" % len(body)
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _take_over(self, request, body):
        intake = await request.take_over(size_bytes=request.content_length)
        if intake is None:
            return body
        name = str(len(self.files))
        file = BodyFile(disk=Disk(), aside=self.folder / name, place=self.folder / f"{name}.whole")
        self.files.append(file)
        stored = await intake.start(file, [bytes(body)], ())
        self.stretches.append(stored.taken_bytes)
        request.note_taken(stored.taken_bytes)
        if stored.digests is None:
            return bytearray(file.aside.read_bytes() if file.aside.exists() else b"")
        return bytearray(file.place.read_bytes())


@contextlib.asynccontextmanager
async def serving(app):
    """Serve app, and connect to it; yield the client's streams and the server's connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            http=connection.Connection,
            lifespan="off",
            log_level="critical",
            proxy_headers=False,
        )
        running = uvicorn.Server(config)
        task = asyncio.create_task(running._serve(sockets=[listener]))
        await until(lambda: running.started)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            yield reader, writer, running.server_state.connections
        finally:
            writer.close()
            running.should_exit = running.force_exit = True
            await task
            await app.receivers.close()


async def until(condition):
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the state lies in a thread
            await asyncio.sleep(0.002)


def put(size_bytes: int, *headers: bytes) -> bytes:
    lines = b"".join(each + b"\r\n" for each in headers)
    return b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n" % (size_bytes, lines)


async def answer_of(reader) -> tuple[bytes, bytes]:
    """Return the status line of the next answer, and its body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
    lines = head.split(b"\r\n")
    sizes = [line for line in lines if line.startswith(b"content-length: ")]
    size_bytes = int(sizes[0].split(b": ")[1]) if sizes else 0
    return lines[0], await asyncio.wait_for(reader.readexactly(size_bytes), WAIT_SECONDS)


def answered(size_bytes: int) -> tuple[bytes, bytes]:
    return b"HTTP/1.1 200 OK", b"%d" % size_bytes


@LOOPS
def test_bodies_arrive_whole_and_their_connection_serves_on(runner, tmp_path):
    bodies = [os.urandom(size_bytes) for size_bytes in (*SIZES, 10, 2 * MIB)]
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, _):
            for body in bodies:
                writer.write(put(len(body)) + body)
                assert await answer_of(reader) == answered(len(body))

    runner(talk())
    assert app.bodies == bodies
    assert len(app.stretches) >= len(bodies) - 1


@LOOPS
def test_requests_behind_a_body_are_answered_in_their_order(runner, tmp_path):
    bodies = [os.urandom(2 * MIB), os.urandom(MIB), b"small", os.urandom(MIB + 1)]
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, _):
            writer.write(b"".join(put(len(body)) + body + GET for body in bodies))
            for body in bodies:
                assert await answer_of(reader) == answered(len(body))
                assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.bodies == [each for body in bodies for each in (body, b"")]
    assert app.stretches


@LOOPS
def test_a_client_that_pauses_is_waited_for(runner, tmp_path):
    body = os.urandom(6 * MIB)
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, _):
            for start in range(0, len(body), 2 * MIB):
                writer.write((b"" if start else put(len(body))) + body[start : start + 2 * MIB])
                written = min(start + 2 * MIB, len(body) - 1)
                await until(lambda written=written: app.files and at_least(app, written))
            assert await answer_of(reader) == answered(len(body))
            writer.write(GET)
            assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.bodies == [body, b""]
    assert len(app.stretches) == 1


def at_least(app: Taking, size_bytes: int) -> bool:
    """Return whether so much of the newest body is written."""
    written_bytes = app.files[-1].written_bytes()
    return app.files[-1].place.exists() or (written_bytes or 0) >= size_bytes


@LOOPS
def test_what_a_client_owes_counts_while_nothing_of_it_waits_for_the_process(runner, tmp_path):
    size_bytes = limits.INTAKE_BYTES_MIN + 100
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, connections):
            writer.write(put(size_bytes) + b"x")
            await until(lambda: app.files and at_least(app, 1))
            (only,) = connections
            for sent in range(2, 6):
                writer.write(b"x")
                await until(lambda sent=sent: only._intake.taken_bytes == sent - 1)
                assert only._intake.waits_for_client
                assert only._owed()[0] == "send"
            writer.write(bytes(size_bytes - 5))
            assert await answer_of(reader) == answered(size_bytes)

    runner(talk())


class Waiting(Disk):
    """Folders whose syncs wait until they are `let`."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.syncs = 0

    def fsync_folder(self, path: Path) -> None:
        self.syncs += 1
        assert self.let.wait(WAIT_SECONDS)
        super().fsync_folder(path)


def test_a_client_owes_nothing_while_its_whole_body_is_published(tmp_path):
    disk = Waiting()
    app = Taking(tmp_path, start=intakes.threads(disk))

    async def talk():
        async with serving(app) as (reader, writer, connections):
            writer.write(put(2 * MIB) + bytes(2 * MIB))
            await until(lambda: disk.syncs)
            (only,) = connections
            assert app.files[-1].place.exists()
            assert only._owed() is None
            disk.let.set()
            assert await answer_of(reader) == answered(2 * MIB)

    try:
        asyncio.run(talk())
    finally:
        disk.let.set()


@LOOPS
@pytest.mark.parametrize("ending", ["closes", "ends its sending", "resets"])
def test_a_client_that_is_lost_within_a_body_is_noticed(runner, ending, tmp_path):
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (_, writer, connections):
            writer.write(put(8 * MIB) + bytes(2 * MIB))
            await until(lambda: app.files and at_least(app, MIB))
            if ending == "closes":
                writer.close()
            elif ending == "resets":
                writer.transport.abort()
            else:
                writer.write_eof()
            await until(lambda: app.outcomes)
            await until(lambda: not connections)

    runner(talk())
    assert app.outcomes == ["disconnected"]
    assert app.bodies == []


@LOOPS
@pytest.mark.parametrize("sent_bytes", [0, 2 * MIB])
def test_a_client_that_stops_within_a_body_is_answered(runner, sent_bytes, tmp_path):
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, connections):
            now = 1000.0
            looking = watch.Watch(connections, idle_seconds=60, monotonic=lambda: now)
            writer.write(put(8 * MIB, b"Expect: 100-continue"))
            assert await answer_of(reader) == (b"HTTP/1.1 100 Continue", b"")
            writer.write(bytes(sent_bytes))
            await until(lambda: app.files and at_least(app, sent_bytes))
            looking.look()
            now += 59
            looking.look()
            assert connections
            now += 1
            looking.look()
            assert (await answer_of(reader))[0] == b"HTTP/1.1 400 Bad Request"

    runner(talk())
    assert app.outcomes == ["stalled"]


@LOOPS
def test_a_draining_server_ends_a_body_that_a_process_reads(runner, tmp_path):
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, connections):
            now = 1000.0
            looking = watch.Watch(connections, idle_seconds=60, monotonic=lambda: now)
            writer.write(put(8 * MIB) + bytes(2 * MIB))
            (only,) = await connected(connections)
            await until(lambda: only._intake is not None)
            looking.drain()
            now += limits.DRAIN_SECONDS_MAX

            def look() -> bool:
                looking.look()
                return bool(app.outcomes)

            await until(look)
            assert (await answer_of(reader))[0] == b"HTTP/1.1 400 Bad Request"

    runner(talk())
    assert app.outcomes == ["stalled"]


@LOOPS
def test_a_connection_that_the_server_ends_leaves_no_descriptor(runner, tmp_path):
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, connections):
            writer.write(put(64 * MIB) + bytes(2 * MIB))
            (only,) = await connected(connections)
            await until(lambda: app.files and at_least(app, 2 * MIB))
            own = only._intake._socket
            only.give_way()
            await until(lambda: app.outcomes)
            assert own.fileno() == -1
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""

    runner(talk())
    assert app.outcomes == ["disconnected"]


async def connected(connections):
    await until(lambda: any(each.newest is not None for each in connections))
    return tuple(connections)


@LOOPS
def test_a_client_that_waits_for_100_continue_gets_it_before_the_process_reads(runner, tmp_path):
    body = os.urandom(2 * MIB)
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, _):
            writer.write(put(len(body), b"Expect: 100-continue"))
            assert await answer_of(reader) == (b"HTTP/1.1 100 Continue", b"")
            writer.write(body)
            assert await answer_of(reader) == answered(len(body))

    runner(talk())
    assert app.bodies == [body]
    assert app.stretches


@LOOPS
@pytest.mark.parametrize(
    "head",
    [
        b"PUT / HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (2 * MIB),
        put(2 * MIB, b"Connection: close"),
    ],
)
def test_the_last_body_of_a_connection_is_read_by_the_event_loop(runner, head, tmp_path):
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, _):
            writer.write(head + bytes(2 * MIB) + GET)
            assert await answer_of(reader) == answered(2 * MIB)
            assert await reader.read() == b""

    runner(talk())
    assert app.bodies == [bytes(2 * MIB)]
    assert app.stretches == []


@LOOPS
def test_a_body_is_read_by_the_event_loop_when_no_descriptor_is_left(runner, monkeypatch, tmp_path):
    app = Taking(tmp_path)

    def refuse(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async def talk():
        async with serving(app) as (reader, writer, _):
            with monkeypatch.context() as patched:
                patched.setattr(socket, "fromfd", refuse)
                writer.write(put(2 * MIB) + bytes(2 * MIB) + GET)
                assert await answer_of(reader) == answered(2 * MIB)
                assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.bodies == [bytes(2 * MIB), b""]
    assert app.stretches == []


@LOOPS
def test_a_body_in_chunks_is_read_by_the_event_loop(runner, tmp_path):
    chunk = b"%x\r\n%b\r\n" % (MIB, bytes(MIB))
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, _):
            head = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head + chunk * 2 + b"0\r\n\r\n" + GET)
            assert await answer_of(reader) == answered(2 * MIB)
            assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.stretches == []


@LOOPS
def test_a_body_is_read_by_the_event_loop_where_no_process_can_be_started(runner, tmp_path):
    async def refuse():
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    app = Taking(tmp_path, start=refuse)

    async def talk():
        async with serving(app) as (reader, writer, _):
            for _ in range(receiving.DEATHS_MAX + 1):
                writer.write(put(2 * MIB) + bytes(2 * MIB) + GET)
                assert await answer_of(reader) == answered(2 * MIB)
                assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.stretches == []


@LOOPS
def test_a_connection_whose_body_is_lost_with_its_process_is_cut_off(runner, tmp_path):
    app = Taking(tmp_path)

    async def talk():
        async with serving(app) as (reader, writer, connections):
            writer.write(put(8 * MIB) + bytes(2 * MIB))
            await until(lambda: app.files and at_least(app, 2 * MIB))
            app.receivers._processes[0]._channel.shutdown(socket.SHUT_RDWR)
            await until(lambda: not connections)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        async with serving(app) as (reader, writer, _):
            writer.write(put(2 * MIB) + bytes(2 * MIB))
            assert await answer_of(reader) == answered(2 * MIB)

    runner(talk())
    assert app.outcomes[0] == "lost"
    assert app.stretches[-1:] > [MIB]
