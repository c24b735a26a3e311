"""What a running server takes from a client that has not finished its request's head."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import uvicorn

from server import connection, limits


def read_all(client: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(65536):
            found += data
    return found


def flood(server, head: bytes, piece: bytes, count: int) -> tuple[int, bytes]:
    """Send head, then piece count times; return how many went out and what came back."""
    sent = 0
    with socket.create_connection((server.host, server.port), timeout=20) as client:
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
    with socket.create_connection((server.host, server.port), timeout=20) as client:
        client.sendall(
            b"GET /_health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-A: " + value + b"\r\n\r\n"
        )
        assert read_all(client).startswith(b"HTTP/1.1 200")


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
async def serving(protocol):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        running = uvicorn.Server(
            uvicorn.Config(application, http=protocol, lifespan="off", log_level="error")
        )
        task = asyncio.create_task(running._serve(sockets=[listener]))
        while not running.started:  # noqa: ASYNC110 - uvicorn offers no event
            await asyncio.sleep(0.002)
        try:
            yield await asyncio.open_connection(*listener.getsockname())
        finally:
            running.should_exit = True
            await task


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(begun):
    async def wait():
        async with serving(Impatient) as (reader, writer):
            writer.write(begun)
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return answer

    assert asyncio.run(wait()).startswith(b"HTTP/1.1 408 ")


def test_a_body_and_an_answer_may_take_longer_than_a_head():
    async def talk():
        async with serving(Impatient) as (reader, writer):
            for _ in range(2):
                writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
                await asyncio.sleep(0.3)
                writer.write(b"b")
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                assert head.startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(2) == b"ab"
            writer.close()

    asyncio.run(talk())


@pytest.mark.parametrize("begun", [b"GET / HT", b"\r\n"])
def test_a_second_head_that_does_not_come_ends_the_connection_too(begun):
    async def talk():
        async with serving(Impatient) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await asyncio.sleep(0.05)
            writer.write(begun)
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            return answer

    answer = asyncio.run(talk())
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answer


def test_trailers_are_bounded_and_no_headers():
    async def talk():
        async with serving(connection.Connection) as (reader, writer):
            writer.write(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    writer.write(b"X-A: b\r\n" * 8192)
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

    asyncio.run(talk())
