"""What a running server takes from a client that is not done with its request's head, or stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
import types

import pytest
import uvicorn

from server import asgi, dispatch, errors, limits
from server.transport import connection, cycle, watch
from tests.kit.waits import WAIT_SECONDS, pass_by


def read_all(client: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(65536):
            received += data
    return received


def flood(server, head: bytes, piece: bytes, count: int) -> tuple[int, bytes]:
    """Send head, then piece count times; return how many went out and what came back."""
    sent = 0
    with socket.create_connection((server.host, server.port), timeout=WAIT_SECONDS) as client:
        client.sendall(head)
        with contextlib.suppress(ConnectionError):
            while sent < count:
                client.sendall(piece)
                sent += 1
        return sent, read_all(client)


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: ", b"a" * 65536),
        (b"GET /x HTTP/1.1\r\nHost: a\r\n", b"X-A: b\r\n" * 8192),
        (b"GET /", b"x" * 65536),
    ],
)
def test_a_head_without_end_is_cut_off(server, head, piece):
    sent, answer = flood(server, head, piece, 1000)
    assert sent < 1000
    assert answer == b"" or answer.split(b" ")[1] in (b"431", b"400")


def test_a_head_at_the_bounds_of_the_application_is_answered_by_it(server):
    value = b"v" * (limits.HEADERS_BYTES_MAX - 2000)
    with socket.create_connection((server.host, server.port), timeout=WAIT_SECONDS) as client:
        client.sendall(
            b"GET /_health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: " + value + b"\r\n\r\n"
        )
        assert read_all(client).startswith(b"HTTP/1.1 200")


def test_a_head_of_many_headers_is_answered_and_one_of_very_many_is_cut_off(server):
    def ask(count):
        headers = b"".join(b"x-%d: 1\r\n" % number for number in range(count - 2))
        with socket.create_connection((server.host, server.port), timeout=WAIT_SECONDS) as client:
            client.sendall(b"GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + headers)
            with contextlib.suppress(ConnectionError):
                client.sendall(b"\r\n")
            return read_all(client)

    assert b"<Code>RequestHeaderSectionTooLarge</Code>" in ask(limits.HEADERS_MAX + 1)
    assert b"<Code>RequestHeaderSectionTooLarge</Code>" in ask(limits.HEADERS_RECEIVED_MAX)
    assert ask(limits.HEADERS_RECEIVED_MAX + 1).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /b HTTP/1.1\r\nHost: a\r\n" + b"x: 1\r\n" * limits.HEADERS_RECEIVED_MAX, b"431"),
        (b"GET /b HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * limits.HEAD_BYTES_MAX, b"431"),
        (b"NO REQUEST AT ALL\r\n\r\n", b"400"),
        (b"GET /b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
    ],
)
def test_a_client_that_goes_on_sending_reads_why_its_head_was_refused(head, status):
    async def talk():
        async with serving(connection.Connection) as (reader, writer):
            writer.write(head)
            await writer.drain()
            await asyncio.sleep(0.1)
            writer.write(b"b" * 4_000_000)
            await writer.drain()
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return answer

    answer = asyncio.run(talk())
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"HTTP/1.1") == 1


def test_a_client_that_never_stops_sending_behind_a_refused_head_is_cut_off():
    async def flood(writer):
        for _ in range(20):
            writer.write(b"b" * (limits.UNREAD_HEAD_BYTES_MAX // 4))
            await writer.drain()

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, watching=watching) as (_, writer):
            writer.write(b"NO REQUEST AT ALL\r\n\r\n")
            with pytest.raises(ConnectionError):
                await flood(writer)
            assert not watching.connections

    asyncio.run(talk())


def test_a_connection_whose_head_was_refused_does_not_stay_open(monkeypatch):
    monkeypatch.setattr(limits, "UNREAD_HEAD_SECONDS_MAX", 0.2)

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, watching=watching) as (reader, writer):
            writer.write(b"NO REQUEST AT ALL\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400")
            await until(lambda: not watching.connections)
            writer.close()

    asyncio.run(talk())


class Impatient(connection.Connection):
    head_seconds_max = 0.2


async def application(scope, receive, send):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def serving(protocol, app=application, watching=None):
    """Serve app, and connect to it. watching: takes the server's connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        running = uvicorn.Server(
            uvicorn.Config(
                app, http=protocol, lifespan="off", log_level="error", proxy_headers=False
            )
        )
        if watching is not None:
            watching.connections = running.server_state.connections
        task = asyncio.create_task(running._serve(sockets=[listener]))
        while not running.started:  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(0.002)
        try:
            yield await asyncio.open_connection(*listener.getsockname())
        finally:
            running.should_exit = running.force_exit = True
            await task


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(begun):
    async def wait():
        async with serving(Impatient) as (reader, writer):
            writer.write(begun)
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return answer

    assert asyncio.run(wait()).startswith(b"HTTP/1.1 408 ")


def test_a_body_and_an_answer_may_take_longer_than_a_head():
    async def talk():
        app = Bodies()
        async with serving(connection.Connection, app) as (reader, writer):
            for received_bytes in (1, 3):
                writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
                await app.has(received_bytes)
                app.proceed.clear()
                await pass_by(connection.Connection.head_seconds_max + 1)
                writer.write(b"b")
                await app.has(received_bytes + 1)
                await pass_by(connection.Connection.head_seconds_max + 1)
                app.proceed.set()
                answer = await asyncio.wait_for(reader.readuntil(b"whole"), WAIT_SECONDS)
                assert answer.startswith(b"HTTP/1.1 200 ")
            writer.close()

    asyncio.run(talk())


@pytest.mark.parametrize("begun", [b"GET / HT", b"\r\n"])
def test_a_second_head_that_does_not_come_ends_the_connection_too(begun):
    first = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, watching=watching) as (reader, writer):
            writer.write(first)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
            assert head.startswith(b"HTTP/1.1 200 ")
            writer.write(begun)
            (only,) = watching.connections
            await until(lambda: only._received_bytes == len(first + begun))
            await pass_by(connection.Connection.head_seconds_max + 1)
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 408 ")


def test_trailers_are_bounded_and_no_headers():
    async def talk():
        async with serving(connection.Connection) as (reader, writer):
            writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    writer.write(b"X-A: b\r\n" * 8192)
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""
            writer.close()

    asyncio.run(talk())


class Watching:
    """A watch over a server's connections, with a clock that stands until it is moved."""

    idle_seconds = 60

    def __init__(self):
        self.now = 1000.0
        self.connections = None
        self._watch = None

    @property
    def watch(self):
        if self._watch is None:
            self._watch = watch.Watch(
                self.connections, idle_seconds=self.idle_seconds, monotonic=lambda: self.now
            )
        return self._watch

    def look_after(self, seconds):
        self.now += seconds
        self.watch.look()


class Bodies:
    """An application that reads a body and says what came of it; it can be waited for."""

    def __init__(self, *, answer=b"whole"):
        self.answer = answer
        self.received_bytes = 0
        self.disconnected = False
        self.proceed = asyncio.Event()
        self.proceed.set()

    async def __call__(self, scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        await self.proceed.wait()
        try:
            async for data in request.chunks():
                self.received_bytes += len(data)
        except errors.BodyStalled:
            status, answer = 400, b"stalled"
        except errors.ClientDisconnected:
            self.disconnected = True
            return
        else:
            status, answer = 200, self.answer
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def has(self, received_bytes):
        await until(lambda: self.received_bytes == received_bytes)


async def until(condition):
    """Wait until condition() is true, and return what it is."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (held := condition()):  # noqa: ASYNC110 - what is waited for lies in uvicorn
            await asyncio.sleep(0.002)
    return held


PUT = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"


def test_a_body_that_stops_is_answered_and_its_connection_closed():
    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(PUT + b"12345")
            await app.has(5)
            for seconds in (0, 30, 29):
                watching.look_after(seconds)
            writer.write(b"6")
            await app.has(6)
            for seconds in (30, 59):
                watching.look_after(seconds)
            assert len(watching.connections) == 1
            watching.look_after(1)
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
        return answer

    head, _, body = asyncio.run(talk()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head
    assert body == b"stalled"


def test_a_body_that_comes_slowly_is_taken_whole():
    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(PUT)
            for number in range(10):
                await app.has(number)
                watching.look_after(59)
                writer.write(b"x")
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(5) == b"whole"
            for seconds in (0, connection.Connection.keep_alive_seconds - 0.5):
                watching.look_after(seconds)
            writer.write(PUT + b"0123456789")
            await reader.readuntil(b"whole")
            writer.close()

    asyncio.run(talk())


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
def test_a_server_that_is_slow_itself_does_not_blame_the_client(expect):
    size = 1 << 20
    head = b"PUT / HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n" % (expect, size)

    async def talk():
        app, watching = Bodies(), Watching()
        app.proceed.clear()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(head)
            if not expect:
                writer.write(bytes(size))
            await until(lambda: any(each.newest is not None for each in watching.connections))
            if not expect:
                await until(lambda: all(each._read_paused for each in watching.connections))
            for _ in range(5):
                watching.look_after(100)
            app.proceed.set()
            if expect:
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
                writer.write(bytes(size))
            answer = await reader.readuntil(b"whole")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" not in answer
            writer.close()

    asyncio.run(talk())


def test_an_application_that_works_for_long_is_waited_for():
    async def talk():
        app, watching = Bodies(), Watching()
        app.proceed.clear()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(PUT + b"0123456789")
            await until(lambda: any(each.newest is not None for each in watching.connections))
            watching.watch.drain()
            for _ in range(5):
                watching.look_after(100)
            app.proceed.set()
            assert (await reader.readuntil(b"whole")).startswith(b"HTTP/1.1 200 ")
            writer.close()

    asyncio.run(talk())


async def refuse(scope, receive, send):
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def test_a_body_refused_while_its_start_fills_the_buffer_is_received_and_dropped():
    async def talk():
        refusing = asyncio.Event()
        watching = Watching()

        async def refuse_later(scope, receive, send):
            await refusing.wait()
            await refuse(scope, receive, send)

        async with serving(connection.Connection, refuse_later, watching) as (reader, writer):
            size_bytes = 8 * 1024 * 1024
            writer.write(b"PUT /a HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size_bytes)
            writer.write(bytes(size_bytes))
            await until(lambda: bool(watching.connections))
            (only,) = watching.connections
            await until(lambda: only._read_paused)
            refusing.set()
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403")
            await asyncio.wait_for(writer.drain(), WAIT_SECONDS)
            writer.write(b"GET /b HTTP/1.1\r\nhost: a\r\n\r\n")
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
            assert answer.startswith(b"HTTP/1.1 403")
            writer.close()

    asyncio.run(talk())


def test_the_answer_of_a_connection_that_ends_is_read_behind_a_refused_body():
    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse, watching) as (reader, writer):
            size_bytes = 16 * 1024 * 1024
            writer.write(
                b"PUT /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n" % size_bytes
            )
            # As http.client does: all of the body goes out before the answer is looked at.
            for _ in range(16):
                writer.write(bytes(size_bytes // 16))
                await asyncio.wait_for(writer.drain(), WAIT_SECONDS)
                await asyncio.sleep(0.01)
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            assert answer.startswith(b"HTTP/1.1 403")
            await until(lambda: not watching.connections)
            writer.close()

    asyncio.run(talk())


def test_no_request_behind_a_refused_body_is_served_by_a_connection_that_ends():
    paths = []

    async def refuse_and_count(scope, receive, send):
        paths.append(scope["raw_path"])
        await send(
            {
                "type": "http.response.start",
                "status": 403,
                "headers": [(b"content-length", b"0"), (b"connection", b"close")],
            }
        )
        await send({"type": "http.response.body", "body": b""})

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse_and_count, watching) as (reader, writer):
            writer.write(PUT)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403")
            writer.write(b"0123456789" + PIPELINED)
            assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""
            await until(lambda: not watching.connections)
            writer.close()

    asyncio.run(talk())
    assert len(paths) == 1


@pytest.mark.parametrize("rest", [b"no size\r\n", b"1;" + b"x" * limits.HEAD_BYTES_MAX * 2])
def test_nothing_follows_the_answer_of_a_connection_that_ends(rest, caplog):
    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse, watching) as (reader, writer):
            writer.write(CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(rest)
            await until(lambda: not watching.connections)
            with contextlib.suppress(ConnectionError):
                head += await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return head

    assert asyncio.run(talk()).count(b"HTTP/1.1") == 1
    assert not caplog.records


def test_a_connection_that_ends_does_not_wait_for_a_body_for_ever(monkeypatch):
    monkeypatch.setattr(limits, "UNREAD_BODY_SECONDS_MAX", 0.2)

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse, watching) as (reader, writer):
            writer.write(PUT.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403")
            await until(lambda: not watching.connections)
            writer.close()

    asyncio.run(talk())


def test_an_unread_body_that_stalls_ends_its_connection():
    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse, watching) as (reader, writer):
            writer.write(PUT)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"5")
            (only,) = watching.connections
            await until(lambda: only._received_bytes == len(PUT) + 1)
            for seconds in (0, 61):
                watching.look_after(seconds)
            assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""
            await until(lambda: not watching.connections)
            writer.close()

    asyncio.run(talk())


def test_a_connection_with_no_further_request_ends_even_if_the_last_body_came_late():
    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse, watching) as (reader, writer):
            writer.write(PUT)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"0123456789")
            (only,) = watching.connections
            await until(lambda: only._received_bytes == len(PUT) + 10)
            for seconds in (0, connection.Connection.keep_alive_seconds):
                watching.look_after(seconds)
            assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""
            writer.close()

    asyncio.run(talk())


def test_a_request_right_behind_a_late_body_may_take_its_time():
    proceed = asyncio.Event()
    methods = []

    async def refuse_then_wait(scope, receive, send):
        methods.append(scope["method"])
        if len(methods) > 1:
            await proceed.wait()
        await refuse(scope, receive, send)

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, refuse_then_wait, watching) as (reader, writer):
            writer.write(PUT)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"0123456789" + PIPELINED)
            await until(lambda: len(methods) == 2)
            for seconds in (0, 100):
                watching.look_after(seconds)
            proceed.set()
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

    asyncio.run(talk())


CHUNKED = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_malformed_body_is_answered_if_nothing_else_was():
    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(CHUNKED + b"5\r\n12345\r\n")
            await app.has(5)
            writer.write(b"no size\r\n")
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 400 ")


WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole"


@pytest.mark.parametrize(
    ("requests", "garbage", "refusal"),
    [
        (1, b"no request\r\n\r\n", connection.INVALID),
        (3, b"no request\r\n\r\n", connection.INVALID),
        (1, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", connection.INVALID),
        (2, b"GET /b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", connection.INVALID),
        (1, CHUNKED + b"no size\r\n", connection.INVALID),
        (3, CHUNKED + b"2\r\nab\r\nno size\r\n", connection.INVALID),
        (
            2,
            b"GET / HTTP/1.1\r\n" + b"x: 1\r\n" * (limits.HEADERS_RECEIVED_MAX + 2),
            connection.TOO_LARGE + connection.CLOSING,
        ),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_no_request_is_answered_after_the_requests_before_it(
    requests, garbage, refusal, at_once
):
    async def talk():
        app, watching = Bodies(), Watching()
        app.proceed.clear()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write((PUT + b"0123456789") * requests)
            if not at_once:
                await until(lambda: any(each.newest is not None for each in watching.connections))
            writer.write(garbage + PIPELINED)
            (only,) = await until(lambda: list(watching.connections))
            await until(lambda: only._refusal is not None or only._read_paused)
            assert only.transport.get_write_buffer_size() == 0
            assert not reader._buffer, "nothing is answered before its turn"
            app.proceed.set()
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            await until(lambda: not watching.connections)
            return answer

    assert asyncio.run(talk()) == WHOLE * requests + refusal


def test_a_client_that_goes_on_sending_behind_what_is_no_request_reads_all_answers():
    async def talk():
        app, watching = Bodies(answer=bytes(8 << 20)), Watching()
        app.proceed.clear()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write((PUT + b"0123456789") * 2 + b"no request\r\n\r\n" + bytes(4_000_000))
            (only,) = await until(lambda: list(watching.connections))
            await until(lambda: only._refusal is not None)
            app.proceed.set()
            for _ in range(2):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
                assert head.startswith(b"HTTP/1.1 200")
                assert await asyncio.wait_for(reader.readexactly(8 << 20), WAIT_SECONDS) == bytes(
                    8 << 20
                )
            assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == connection.INVALID
            writer.close()

    asyncio.run(talk())


def test_a_repeated_piece_with_what_is_no_request_is_refused_each_time(server):
    health = b"GET /_health HTTP/1.1\r\nHost: a\r\n\r\n"
    for _ in range(3):
        with socket.create_connection((server.host, server.port), timeout=WAIT_SECONDS) as client:
            client.sendall(health)
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            client.sendall(health + b"no request\r\n\r\n")
            answers = read_all(client)
        assert answers.startswith(b"HTTP/1.1 200")
        assert answers.endswith(connection.INVALID)


def test_what_follows_a_request_that_ends_its_connection_is_not_answered():
    async def talk():
        async with serving(connection.Connection) as (reader, writer):
            writer.write(
                b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nno request\r\n\r\n"
            )
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return answer

    assert asyncio.run(talk()).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("shape", ["bytes", "headers", "bodies"])
def test_requests_that_wait_for_their_turn_are_counted(shape):
    if shape == "bytes":
        one = b"GET / HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * 3000 + b"\r\n\r\n"
        least_bytes = 3000
    elif shape == "headers":
        one = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x-ab: 12\r\n" * 30 + b"\r\n"
        least_bytes = 30 * (6 + sys.getsizeof((b"a", b"b")) + 2 * sys.getsizeof(b""))
    else:
        one = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000\r\n\r\n" + bytes(3000)
        least_bytes = 3000
    count = 50

    async def talk():
        app, watching = Bodies(), Watching()
        app.proceed.clear()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(PUT + b"0123456789" + one * count)
            (only,) = await until(lambda: list(watching.connections))
            waiting = await until(lambda: only._read_paused and len(only._waiting))
            assert only._holdings.total_bytes >= waiting * least_bytes
            app.proceed.set()
            for _ in range(count + 1):
                await asyncio.wait_for(reader.readuntil(b"whole"), WAIT_SECONDS)
            await until(lambda: only._holdings.total_bytes == 0)
            writer.close()

    asyncio.run(talk())


@pytest.mark.parametrize("before", [b"", b"\r\n\r\n"])
@pytest.mark.parametrize(
    ("more", "counted"), [(b"", False), (b"X-A: %b\r\n" % (b"a" * 8_000), True)]
)
def test_a_large_head_is_counted_and_a_body_that_comes_with_a_small_one_is_not(
    before, more, counted
):
    length = 10 if counted else 8_000
    head = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n" % (length, more)

    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"whole"), WAIT_SECONDS)
            (only,) = await until(lambda: list(watching.connections))
            app.proceed.clear()
            first = only.newest
            writer.write(before + head + bytes(length))
            await until(lambda: only.newest is not first)
            held_bytes = only._holdings.total_bytes
            assert (held_bytes >= 8_000) is counted
            assert (held_bytes == 0) is (not counted and not before)
            app.proceed.set()
            await asyncio.wait_for(reader.readuntil(b"whole"), WAIT_SECONDS)
            await until(lambda: only._holdings.total_bytes == 0)
            writer.close()

    asyncio.run(talk())


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
@pytest.mark.parametrize(
    "begun",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * 40_000,
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x-ab: 12\r\n" * 400,
    ],
)
def test_a_head_that_is_not_whole_yet_is_counted(before, begun):
    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(before + begun)
            if before:
                await asyncio.wait_for(reader.readuntil(b"whole"), WAIT_SECONDS)
            (only,) = await until(lambda: list(watching.connections))
            await until(lambda: only._holdings.total_bytes >= 40_000)
            writer.write(b"\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"whole"), WAIT_SECONDS)
            await until(lambda: only._holdings.total_bytes == 0)
            writer.close()

    asyncio.run(talk())


LARGE = bytes(64 << 20)
STEP_BYTES = (192 << 10) if sys.platform == "linux" else (4 << 20)
"""On Linux less than what makes room for another write: only the kernel knows of it."""


def test_a_reader_that_stops_is_cut_off_and_a_slow_one_is_not():
    async def talk():
        app, watching = Bodies(answer=LARGE), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            left = len(LARGE)
            for _ in range(4):
                await settled(watching)
                watching.look_after(59)
                left -= len(await reader.readexactly(STEP_BYTES))
            await settled(watching)
            for seconds in (0, 61):
                watching.look_after(seconds)
            await until(lambda: not watching.connections)
            with contextlib.suppress(ConnectionError):
                assert len(await reader.read()) < left
            writer.close()

    asyncio.run(talk())


async def settled(watching):
    """Wait until no byte moves any more in a connection whose client takes none."""
    (only,) = watching.connections
    before, same = None, 0
    while same < 3:
        now = only._owed()
        before, same = now, same + 1 if now == before else 0
        await asyncio.sleep(0.05)


def test_a_draining_server_waits_little_for_a_body_that_has_stopped():
    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(PUT + b"12345")
            await app.has(5)
            watching.look_after(0)
            watching.look_after(20)
            watching.watch.drain()
            watching.look_after(0)
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
        return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 400 ")


PIPELINED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_few_requests_may_come_before_the_first_is_answered():
    async def talk():
        async with serving(connection.Connection) as (reader, writer):
            writer.write(PIPELINED * limits.PIPELINED_MAX)
            for _ in range(limits.PIPELINED_MAX):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
                assert head.startswith(b"HTTP/1.1 200 ")
            writer.close()

    asyncio.run(talk())


def test_too_many_requests_before_the_first_is_answered_end_the_connection():
    answered = 0

    async def counting(scope, receive, send):
        nonlocal answered
        answered += 1
        await application(scope, receive, send)

    async def talk():
        async with serving(connection.Connection, counting) as (reader, writer):
            writer.write(PIPELINED * 5000)
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()

    asyncio.run(talk())
    assert answered <= limits.PIPELINED_MAX + 1


def test_requests_that_wait_on_a_lost_connection_are_freed_without_the_collector():
    never = asyncio.Event()

    async def waiting(scope, receive, send):
        await never.wait()

    def cycles_left():
        held = [each for each in gc.get_objects() if isinstance(each, cycle.Cycle)]
        return sum(each.scope["raw_path"] == b"/waits" for each in held)

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, waiting, watching) as (_, writer):
            writer.write(b"GET /waits HTTP/1.1\r\nHost: a\r\n\r\n" * 10)
            await until(lambda: cycles_left() == 10)
            (only,) = watching.connections
            only.give_way()
            del only
            await until(lambda: not watching.connections)
            # The request that is being answered, and the newest one.
            await until(lambda: cycles_left() <= 2)
            never.set()

    gc.disable()
    try:
        asyncio.run(talk())
    finally:
        gc.enable()


def test_an_answer_in_several_pieces_is_sent_in_their_order():
    pieces = (b"head ", bytes(300_000), b"", b" tail")

    async def in_pieces(scope, receive, send):
        lines = b"content-length: %d\r\n" % sum(map(len, pieces))
        await scope["extensions"][asgi.WRITER].send_whole(200, lines, pieces)

    async def talk():
        async with serving(connection.Connection, in_pieces) as (reader, writer):
            for _ in range(2):
                writer.write(PIPELINED)
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
                body = await asyncio.wait_for(reader.readexactly(300_010), WAIT_SECONDS)
                assert body == b"".join(pieces)
            writer.close()

    asyncio.run(talk())


def test_a_pipelined_request_is_answered_once_its_client_takes_the_answer_before():
    begun = 0
    answer = bytes(8 << 20)

    async def large(scope, receive, send):
        nonlocal begun
        begun += 1
        lines = b"content-length: %d\r\n" % len(answer)
        await scope["extensions"][asgi.WRITER].send_whole(200, lines, answer)

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, large, watching) as (reader, writer):
            writer.write(PIPELINED * 4)
            await until(lambda: begun)
            await settled(watching)
            assert begun == 1
            (only,) = watching.connections
            assert only.answering, "what waits in the transport counts as an answer under way"
            for _ in range(4):
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
                await asyncio.wait_for(reader.readexactly(len(answer)), WAIT_SECONDS)
            assert begun == 4
            writer.close()

    asyncio.run(talk())


CATALOGS = b"429 Too Many Requests"
SIGNED = (
    b"AWS4-HMAC-SHA256 Credential=K/20261128/us-east-1/%s/aws4_request, "
    b"SignedHeaders=host, Signature=" + b"0" * 64
)


@pytest.mark.parametrize(
    ("target", "lines", "status"),
    [
        # 503 to a commit means to Iceberg's clients that it may have happened.
        (b"/iceberg/v1/lake/namespaces/ns/tables/t", b"Host: a", CATALOGS),
        (b"/iceberg/v1/lake/transactions/commit?x=1", b"Host: a", CATALOGS),
        (b"/iceberg/v1/lake", b"Host: a\r\nAuthorization: " + SIGNED % b"s3tables", CATALOGS),
        (b"http://a/iceberg/v1/lake/namespaces/ns/tables/t", b"Host: b", CATALOGS),
        (b"/icebergs/key", b"Host: a", b"503 Service Unavailable"),
        (b"/bucket/iceberg/v1", b"Host: a", b"503 Service Unavailable"),
        # S3: by its host, by its signature.
        (b"/iceberg/key", b"Host: docs.localhost", b"503 Service Unavailable"),
        (b"/iceberg/key", b"Host: docs.lake.example", b"503 Service Unavailable"),
        (b"http://docs.localhost/iceberg/key", b"Host: a", b"503 Service Unavailable"),
        (
            b"/iceberg/key",
            b"Host: a\r\nAuthorization: " + SIGNED % b"s3",
            b"503 Service Unavailable",
        ),
        (b"ftp://a/iceberg/v1", b"Host: a", b"503 Service Unavailable"),
    ],
)
def test_a_head_that_has_to_give_way_is_refused_as_its_clients_retry(target, lines, status):
    async def application_with_faces(scope, receive, send):
        raise AssertionError("no head is complete")

    def face_of_head(target, headers):
        path, _, query = target.partition(b"?")
        joined = asgi.Headers(headers).joined
        return dispatch.face_of_head(path, query, joined, domain="lake.example")

    application_with_faces.face_of_head = face_of_head

    async def talk():
        watching = Watching()
        served = serving(connection.Connection, application_with_faces, watching)
        async with served as (reader, writer):
            writer.write(b"POST %s HTTP/1.1\r\n%s\r\nX-Long: %s" % (target, lines, b"x" * 5000))
            await until(lambda: any(each._reported_bytes for each in watching.connections))
            (only,) = watching.connections
            only.give_way()
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
        head = b"HTTP/1.1 %s\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        assert answer == head % status

    asyncio.run(talk())


def test_an_answer_that_is_not_read_is_let_go_of_when_it_has_to_give_way():
    async def large(scope, receive, send):
        answer = bytes(8 << 20)
        lines = b"content-length: %d\r\n" % len(answer)
        await scope["extensions"][asgi.WRITER].send_whole(200, lines, answer)

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, large, watching) as (_reader, writer):
            writer.write(PIPELINED)
            await until(lambda: watching.connections)
            await settled(watching)
            (only,) = watching.connections
            only.give_way()
            await until(lambda: not watching.connections)
            assert only.transport.get_write_buffer_size() == 0
            writer.close()

    asyncio.run(talk())


def test_a_draining_server_waits_for_a_slow_body_but_not_for_ever():
    async def talk():
        app, watching = Bodies(), Watching()
        async with serving(connection.Connection, app, watching) as (reader, writer):
            writer.write(PUT)
            await until(lambda: any(each.newest is not None for each in watching.connections))
            watching.watch.drain()
            for number in range(1, 6):
                writer.write(b"x")
                await app.has(number)
                watching.look_after(4)
            assert len(watching.connections) == 1
            writer.write(b"x")
            await app.has(6)
            watching.look_after(5)
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
        return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 400 ")


class AtOnce:
    """Answers what is asked for `/now` without a task, and the rest from a coroutine."""

    async def __call__(self, scope, receive, send):
        raise AssertionError("`begin` comes first")

    def begin(self, scope, receive, send):
        if scope["path"] == "/broken":
            raise RuntimeError("planted")
        if scope["path"] != "/now":
            return self.answer_later(scope)
        self.answer(scope)
        return None

    async def answer_later(self, scope):
        await asyncio.sleep(0)
        self.answer(scope)

    def answer(self, scope):
        writer = scope["extensions"][asgi.WRITER]
        assert writer.is_ready
        body = scope["raw_path"] + b"?" + scope["query_string"]
        writer.send_now(200, b"content-length: %d\r\n" % len(body), body)


def test_answers_at_once_and_later_come_in_the_order_of_their_requests():
    targets = [b"/now?1", b"/later?2", b"/now?3", b"/now?4", b"/later?5", b"/now?6"]

    async def talk(pieces):
        async with serving(connection.Connection, AtOnce()) as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            bodies = []
            for _ in targets:
                head = await reader.readuntil(b"\r\n\r\n")
                size_bytes = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                bodies.append(await reader.readexactly(size_bytes))
            return bodies

    stream = b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target for target in targets)
    assert asyncio.run(talk([stream])) == targets
    assert asyncio.run(talk([stream[at : at + 9] for at in range(0, len(stream), 9)])) == targets


def test_an_answer_at_once_to_a_request_with_a_body_lets_the_connection_serve_on():
    async def talk():
        async with serving(connection.Connection, AtOnce()) as (reader, writer):
            writer.write(b"PUT /now?1 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
            first = await reader.readuntil(b"/now?1")
            writer.write(b"defGET /now?2 HTTP/1.1\r\nHost: a\r\n\r\n")
            second = await reader.readuntil(b"/now?2")
            return first, second

    first, second = asyncio.run(talk())
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")


def test_an_application_that_raises_before_it_awaits_is_answered_by_500(caplog):
    async def talk():
        async with serving(connection.Connection, AtOnce()) as (reader, writer):
            writer.write(b"GET /broken HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = await reader.read()
            return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 500")
    assert "planted" in caplog.text


class Echo:
    """Answers at once with the names of the request's headers."""

    def __init__(self):
        self.begun = 0

    async def __call__(self, scope, receive, send):
        raise AssertionError("`begin` comes first")

    def begin(self, scope, receive, send):
        self.begun += 1
        names = b",".join(name for name, _ in scope["headers"])
        lines = b"content-length: %d\r\n" % len(names)
        scope["extensions"][asgi.WRITER].send_now(200, lines, names)


def test_a_head_keeps_the_headers_that_came_before_the_large_request_ahead_was_answered():
    large = b"X-A: %b\r\n" % (b"a" * (2 * limits.HEAD_UNCOUNTED_BYTES_MAX))

    async def talk():
        async with serving(connection.Connection, Echo()) as (reader, writer):
            first = b"GET / HTTP/1.1\r\nHost: a\r\n" + large + b"\r\n"
            writer.write(first + b"GET / HTTP/1.1\r\nHost: a\r\nX-B: b\r\nX-C: c\r\n")
            assert await asyncio.wait_for(reader.readuntil(b"host,x-a"), WAIT_SECONDS)
            writer.write(b"X-D: d\r\n\r\n")
            second = await asyncio.wait_for(reader.readuntil(b"x-d"), WAIT_SECONDS)
            writer.close()
            return second

    assert asyncio.run(talk()).endswith(b"\r\n\r\nhost,x-b,x-c,x-d")


def test_a_request_that_came_with_a_broken_body_is_not_begun():
    app = Echo()

    async def talk():
        async with serving(connection.Connection, app) as (reader, writer):
            writer.write(
                b"DELETE / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n"
            )
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            writer.close()
            return answer

    answer = asyncio.run(talk())
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert app.begun == 0


def test_an_application_that_reads_a_broken_body_late_sends_no_continue_behind_the_answer():
    app = Bodies()
    app.proceed.clear()

    async def talk():
        async with serving(connection.Connection, app) as (reader, writer):
            writer.write(
                b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            await asyncio.sleep(0.05)
            writer.write(b"no\r\n")
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            app.proceed.set()
            await until(lambda: app.disconnected)
            writer.close()
            return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 400")


def test_an_answer_that_comes_after_the_refusal_of_its_body_does_not_cut_the_refusal_off():
    proceed, refused = asyncio.Event(), asyncio.Event()

    async def late(scope, receive, send):
        await proceed.wait()
        try:
            writer = scope["extensions"][asgi.WRITER]
            await writer.begin(200, b"content-length: 5\r\n", size_bytes=5)
        except errors.ClientDisconnected:
            refused.set()

    async def talk():
        watching = Watching()
        async with serving(connection.Connection, late, watching) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            await asyncio.sleep(0.05)
            writer.write(b"no\r\n")
            answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            proceed.set()
            await asyncio.wait_for(refused.wait(), WAIT_SECONDS)
            writer.write(b"b" * 1_000_000)
            await writer.drain()
            assert len(watching.connections) == 1
            writer.close()
            return answer

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 400")


class Waits:
    """Answers `/now` at once, and the rest once `ends` is called, without a task: `/fails` raises
    then, and `/rest` leaves a coroutine."""

    def __init__(self):
        self.futures = []
        self.tasks = set()
        self.were_ready = []

    async def __call__(self, scope, receive, send):
        raise AssertionError("`begin` comes first")

    def begin(self, scope, receive, send):
        if scope["path"] == "/now":
            self.answer(scope)
            return
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        writer = scope["extensions"][asgi.WRITER]
        writer.wait_for(future, lambda: self.step(scope))

    def end(self):
        self.tasks |= asyncio.all_tasks()
        self.futures.pop(0).set_result(None)

    def step(self, scope):
        if scope["path"] == "/fails":
            raise RuntimeError("planted")
        if scope["path"] == "/rest":
            return self.answer_later(scope)
        self.answer(scope)
        return None

    async def answer_later(self, scope):
        await asyncio.sleep(0)
        self.answer(scope)

    def answer(self, scope):
        writer = scope["extensions"][asgi.WRITER]
        self.were_ready.append(writer.is_ready)
        if writer.is_ready:
            body = scope["raw_path"] + b"?" + scope["query_string"]
            writer.send_now(200, b"content-length: %d\r\n" % len(body), body)


def test_answers_that_wait_for_a_future_come_in_order_and_take_no_task():
    app = Waits()
    targets = [b"/wait?1", b"/now?2", b"/rest?3", b"/wait?4"]

    async def talk():
        async with serving(connection.Connection, app) as (reader, writer):
            before = asyncio.all_tasks()
            writer.write(b"GET /wait?0 HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: app.futures)
            app.end()
            assert app.tasks == before
            first = await reader.readuntil(b"/wait?0")
            # From here on requests wait behind the first of them.
            writer.write(b"".join(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % each for each in targets))
            bodies = []
            for target in targets:
                if target != b"/now?2":
                    await until(lambda: app.futures)
                    app.end()
                answer = await asyncio.wait_for(reader.readuntil(target), WAIT_SECONDS)
                bodies.append(answer.count(b"HTTP/1.1 200"))
            return first, bodies

    first, bodies = asyncio.run(talk())
    assert first.startswith(b"HTTP/1.1 200")
    assert bodies == [1, 1, 1, 1]


def test_a_step_that_raises_is_answered_by_500(caplog):
    app = Waits()

    async def talk():
        async with serving(connection.Connection, app) as (reader, writer):
            writer.write(b"GET /fails HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: app.futures)
            app.end()
            return await asyncio.wait_for(reader.read(), WAIT_SECONDS)

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 500")
    assert "planted" in caplog.text


def test_a_client_that_leaves_before_its_future_is_done_gets_no_answer(caplog):
    app, watching = Waits(), Watching()

    async def talk():
        async with serving(connection.Connection, app, watching=watching) as (_, writer):
            writer.write(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: app.futures)
            writer.close()
            await until(lambda: not watching.connections)
            app.end()
            await until(lambda: app.were_ready)

    asyncio.run(talk())
    assert app.were_ready == [False]
    assert caplog.records == [], "a client that left is no fault of the application"


class Breaks:
    """Returns with nothing left to await, and with no answer, or with half of one: at once, or in
    a step."""

    async def __call__(self, scope, receive, send):
        raise AssertionError("`begin` comes first")

    def begin(self, scope, receive, send):
        writer = scope["extensions"][asgi.WRITER]
        if scope["path"] == "/step":
            future = asyncio.get_running_loop().create_future()
            future.set_result(None)
            writer.wait_for(future, lambda: None)
        if scope["path"] == "/half":
            with contextlib.suppress(StopIteration):
                writer.begin(200, b"content-length: 9\r\n", size_bytes=9).send(None)


@pytest.mark.parametrize("path", [b"/none", b"/step", b"/half"])
@pytest.mark.parametrize("ahead", [0, 1])
def test_an_answer_that_is_left_incomplete_at_once_ends_the_connection(path, ahead, caplog):
    async def talk():
        async with serving(connection.Connection, Breaks()) as (reader, writer):
            writer.write(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path * (ahead + 1))
            return await asyncio.wait_for(reader.read(), WAIT_SECONDS)

    answer = asyncio.run(talk())
    assert answer.startswith(b"HTTP/1.1 200" if path == b"/half" else b"HTTP/1.1 500")
    assert answer.count(b"HTTP/1.1") == 1
    assert "before its answer was complete" in caplog.text


class Takes:
    """Answers with the body, and how it came: at once, or through `receive`."""

    async def __call__(self, scope, receive, send):
        raise AssertionError("`begin` comes first")

    def begin(self, scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        body = request.arrived()
        if body is None:
            return self.receive(request)
        assert request.arrived() is body
        self.answer(request, b"at once:" + body)
        return None

    async def receive(self, request):
        body = await request.read(limit_bytes=100)
        self.answer(request, b"later:" + body)

    def answer(self, request, body):
        assert request.body_finished
        request.writer.send_now(200, b"content-length: %d\r\n" % len(body), body)


@pytest.mark.parametrize("framing", ["Content-Length: 6", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_a_body_that_has_arrived_is_taken_at_once(framing, expect):
    chunked = framing.startswith("T")
    pieces = (b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n") if chunked else (b"abc", b"def")
    head = f"PUT / HTTP/1.1\r\nHost: a\r\n{expect}{framing}\r\n\r\n".encode()

    async def talk(*parts):
        async with serving(connection.Connection, Takes()) as (reader, writer):
            answers = []
            for _ in range(2):
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(0.05)
                answers.append(await asyncio.wait_for(reader.readuntil(b":abcdef"), WAIT_SECONDS))
            return answers

    for answer in asyncio.run(talk(head + b"".join(pieces))):
        assert answer.endswith(b"at once:abcdef")
        assert b" 100 " not in answer
    for answer in asyncio.run(talk(head + pieces[0], pieces[1])):
        assert answer.endswith(b"later:abcdef")
        assert (b" 100 " in answer) == bool(expect)


class Arrives(Takes):
    """Answers with the body once it has arrived, or says that it never will."""

    def begin(self, scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        arriving = request.arriving(limit_bytes=6)
        if arriving is None:
            return self.receive(request)
        request.writer.wait_for(arriving, lambda: self.step(request))
        return None

    def step(self, request):
        body = request.arrived()
        if body is None:
            return self.receive(request)
        self.answer(request, b"without a task:" + body)
        return None

    async def receive(self, request):
        try:
            body = await request.read(limit_bytes=100)
        except errors.BodyStalled:
            request.writer.send_now(400, b"content-length: 7\r\n", b"stalled")
        else:
            self.answer(request, b"later:" + body)


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_a_small_body_is_waited_for_without_a_task(expect):
    head = f"PUT / HTTP/1.1\r\nHost: a\r\n{expect}Content-Length: 6\r\n\r\n".encode()

    async def talk():
        async with serving(connection.Connection, Arrives()) as (reader, writer):
            answers = []
            for parts in ((head, b"abc", b"def"), (head + b"abcdef",), (head + b"abcde", b"f")):
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(0.05)
                answers.append(await asyncio.wait_for(reader.readuntil(b":abcdef"), WAIT_SECONDS))
            writer.write(head.replace(b": 6", b": 7") + b"abc")
            await asyncio.sleep(0.05)
            writer.write(b"defg")
            answers.append(await asyncio.wait_for(reader.readuntil(b":abcdefg"), WAIT_SECONDS))
            return answers

    *answers, last = asyncio.run(talk())
    for answer in answers:
        assert answer.endswith(b"without a task:abcdef")
        assert (b" 100 " in answer) == bool(expect)
    assert last.endswith(b"later:abcdefg")


def test_a_small_body_that_stalls_or_is_cut_off_ends_the_wait(monkeypatch):
    head = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc"
    watching = Watching()

    async def talk():
        async with serving(connection.Connection, Arrives(), watching=watching) as (reader, writer):
            writer.write(head)
            await until(lambda: any(each.newest for each in watching.connections))
            watching.watch.look()
            watching.look_after(Watching.idle_seconds + 1)
            stalled = await asyncio.wait_for(reader.readuntil(b"stalled"), WAIT_SECONDS)
            writer.close()
        cut = Watching()
        async with serving(connection.Connection, Arrives(), watching=cut) as (_, writer):
            writer.write(head)
            await until(lambda: any(each.newest for each in cut.connections))
            writer.close()
            await until(lambda: not cut.connections)
            return stalled

    assert asyncio.run(talk()).startswith(b"HTTP/1.1 400")


def test_servers_in_threads_of_one_process_receive_into_memory_of_their_own():
    """The event loop of one may receive while that of another copies what it received."""
    received = []

    class Noting(connection.Connection):
        def data_received(self, data):
            received.append(data)

    async def talk():
        config = types.SimpleNamespace(loaded=True, loaded_app=Arrives())
        for_each = [types.SimpleNamespace(connections=set(), tasks=set()) for _ in range(2)]
        connected = [Noting(config, state, {}) for state in for_each]
        for each, data in zip(connected, (b"first", b"other"), strict=True):
            each.get_buffer(-1)[: len(data)] = data
        for each in connected:
            each.buffer_updated(5)

    asyncio.run(talk())
    assert received == [b"first", b"other"]
