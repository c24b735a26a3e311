"""Bodies that a worker thread reads from the socket, and what follows them on the connection."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket

import pytest
import uvicorn
import uvloop

from server import asgi, errors, limits
from server.transport import connection, watch
from tests.kit.waits import WAIT_SECONDS

LOOPS = pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
MIB = 1 << 20
SIZES = [limits.INTAKE_BYTES_MIN + MIB, MIB - 1, MIB, MIB + 1, 5 * MIB + 17]
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Reading:
    """An application whose threads read bodies; it answers with how many bytes came.

    bodies: those that came whole. stretches: what threads read at a time. Mutable.
    """

    def __init__(self, *, buffer_bytes: int = MIB) -> None:
        self.buffer_bytes = buffer_bytes
        self.bodies: list[bytes] = []
        self.stretches: list[int] = []
        self.outcomes: list[str] = []
        self.is_reading = False

    async def __call__(self, scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        body = bytearray()
        status = 200
        try:
            async for data in request.chunks():
                body += data
                if request.content_length is not None:
                    await self._take_over(request, body)
        except errors.BodyStalled:
            status = 400
        except errors.ClientDisconnected:
            self.outcomes.append("disconnected")
            return
        self.outcomes.append("whole" if status == 200 else "stalled")
        self.bodies.append(bytes(body))
        answer = b"%d" % len(body)
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _take_over(self, request, body):
        intake = request.take_over(size_bytes=request.content_length)
        if intake is None:
            return

        def read() -> bytes:
            self.is_reading = True
            buffer = memoryview(bytearray(self.buffer_bytes))
            taken = bytearray()
            count = wanted = -1
            while count == wanted and len(taken) < intake.size_bytes:
                wanted = min(len(buffer), intake.size_bytes - len(taken))
                count = intake.read_into(buffer)
                taken += buffer[:count]
            self.is_reading = False
            return bytes(taken)

        taken = await asyncio.get_running_loop().run_in_executor(None, read)
        intake.close()
        body += taken
        self.stretches.append(len(taken))
        request.note_taken(len(taken))


@contextlib.asynccontextmanager
async def serving(app):
    """Serve app, and connect to it; yield the client's streams and the server's connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, http=connection.Connection, lifespan="off", log_level="critical"
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
def test_bodies_arrive_whole_and_their_connection_serves_on(runner):
    bodies = [os.urandom(size_bytes) for size_bytes in (*SIZES, 10, 2 * MIB)]
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, _):
            for body in bodies:
                writer.write(put(len(body)) + body)
                assert await answer_of(reader) == answered(len(body))

    runner(talk())
    assert app.bodies == bodies
    assert len(app.stretches) >= len(bodies) - 1


@LOOPS
@pytest.mark.parametrize("buffer_bytes", [1000, 3 * MIB])
def test_requests_behind_a_body_are_answered_in_their_order(runner, buffer_bytes):
    bodies = [os.urandom(2 * MIB), os.urandom(MIB), b"small", os.urandom(MIB + 1)]
    app = Reading(buffer_bytes=buffer_bytes)

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
def test_a_client_that_pauses_is_left_to_the_event_loop_and_taken_over_again(runner):
    body = os.urandom(6 * MIB)
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, _):
            writer.write(put(len(body)) + body[: 2 * MIB])
            await until(lambda: app.stretches)
            writer.write(body[2 * MIB : 4 * MIB])
            await until(lambda: len(app.stretches) >= 2)
            writer.write(body[4 * MIB :])
            assert await answer_of(reader) == answered(len(body))
            writer.write(GET)
            assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.bodies == [body, b""]


@LOOPS
def test_a_client_that_sends_little_at_a_time_does_not_hold_a_thread(runner, monkeypatch):
    monkeypatch.setattr(limits, "INTAKE_WAIT_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(limits, "INTAKE_STEPS_MAX", 8)
    size_bytes = limits.INTAKE_BYTES_MIN + 100
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, connections):
            writer.write(put(size_bytes) + b"x")
            await until(lambda: app.is_reading)
            (only,) = connections
            intake = only._intake
            sent = 1
            for number in range(1, limits.INTAKE_STEPS_MAX + 1):
                writer.write(b"x")
                sent += 1
                await until(lambda number=number: intake.taken_bytes == number)
            await until(lambda: app.stretches)
            assert app.stretches == [limits.INTAKE_STEPS_MAX]
            writer.write(bytes(size_bytes - sent))
            assert await answer_of(reader) == answered(size_bytes)

    runner(talk())


@LOOPS
@pytest.mark.parametrize("ending", ["closes", "ends its sending", "resets"])
def test_a_client_that_is_lost_within_a_body_is_noticed(runner, ending):
    app = Reading()

    async def talk():
        async with serving(app) as (_, writer, connections):
            writer.write(put(8 * MIB) + bytes(2 * MIB))
            await until(lambda: app.is_reading or app.stretches)
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
def test_a_client_that_stops_within_a_body_is_answered(runner):
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, connections):
            now = 1000.0
            looking = watch.Watch(connections, idle_seconds=60, monotonic=lambda: now)
            writer.write(put(8 * MIB) + bytes(2 * MIB))
            await until(lambda: app.stretches)
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
def test_a_draining_server_ends_a_body_that_a_thread_reads(runner, monkeypatch):
    monkeypatch.setattr(limits, "INTAKE_WAIT_SECONDS", WAIT_SECONDS)
    app = Reading()

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
                writer.write(b"x")  # a thread that waits for a byte reads it before it ends
                looking.look()
                return bool(app.outcomes)

            await until(look)
            assert (await answer_of(reader))[0] == b"HTTP/1.1 400 Bad Request"

    runner(talk())
    assert app.outcomes == ["stalled"]


@LOOPS
def test_a_connection_that_the_server_ends_leaves_no_thread_and_no_descriptor(runner):
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, connections):
            writer.write(put(64 * MIB) + bytes(2 * MIB))
            (only,) = await connected(connections)
            await until(lambda: only._intake is not None)
            own = only._intake._socket
            only.give_way()
            await until(lambda: app.outcomes)
            assert own.fileno() == -1
            assert not app.is_reading
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""

    runner(talk())
    assert app.outcomes == ["disconnected"]


async def connected(connections):
    await until(lambda: any(each.newest is not None for each in connections))
    return tuple(connections)


@LOOPS
def test_a_client_that_waits_for_100_continue_gets_it_before_the_thread_reads(runner):
    body = os.urandom(2 * MIB)
    app = Reading()

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
def test_the_last_body_of_a_connection_is_read_by_the_event_loop(runner, head):
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, _):
            writer.write(head + bytes(2 * MIB) + GET)
            assert await answer_of(reader) == answered(2 * MIB)
            assert await reader.read() == b""

    runner(talk())
    assert app.bodies == [bytes(2 * MIB)]
    assert app.stretches == []


@LOOPS
def test_a_body_is_read_by_the_event_loop_when_no_descriptor_is_left(runner, monkeypatch):
    app = Reading()

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
def test_a_body_in_chunks_is_read_by_the_event_loop(runner):
    chunk = b"%x\r\n%b\r\n" % (MIB, bytes(MIB))
    app = Reading()

    async def talk():
        async with serving(app) as (reader, writer, _):
            head = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head + chunk * 2 + b"0\r\n\r\n" + GET)
            assert await answer_of(reader) == answered(2 * MIB)
            assert await answer_of(reader) == answered(0)

    runner(talk())
    assert app.stretches == []
