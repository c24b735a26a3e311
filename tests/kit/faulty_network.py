"""A proxy between an S3 client and the server that cuts connections and answers SlowDown.

It understands as much of HTTP/1.1 as the clients send: one request after the other on a connection,
bodies with a Content-Length.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final, Literal, TypeAlias

Fault: TypeAlias = Literal["cut the body", "cut the answer", "slow down"]
Choose: TypeAlias = Callable[[str, str], Fault | None]
"""Returns what happens to a request, given its method and its target."""

TIMEOUT_SECONDS: Final = 30
CHUNK_BYTES: Final = 64 * 1024
SLOW_DOWN: Final = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


@contextmanager
def between(host: str, port: int, choose: Choose) -> Iterator[str]:
    """Yield the URL of a proxy of a server."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    clients: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):  # closed below
            while True:
                client, _ = listening.accept()
                clients.append(client)
                thread = threading.Thread(target=_serve, args=(client, host, port, choose))
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for client in clients:
            with contextlib.suppress(OSError):  # closed already
                client.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _serve(client: socket.socket, host: str, port: int, choose: Choose) -> None:
    """Serve one connection of a client with one to the server; close both."""
    with (
        client,
        socket.create_connection((host, port)) as server,
        client.makefile("rb") as of_client,
        server.makefile("rb") as of_server,
        contextlib.suppress(OSError),
    ):
        for each in (client, server):
            each.settimeout(TIMEOUT_SECONDS)
        while True:
            head = _read_head(of_client)
            if head is None:
                return
            method, target, _ = head[0].decode().split(" ", 2)
            size = _body_bytes(head)
            if any(line.lower().startswith(b"expect:") for line in head):
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                head = [line for line in head if not line.lower().startswith(b"expect:")]
            fault = choose(method, target)
            if fault == "slow down":
                of_client.read(size)
                client.sendall(
                    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(SLOW_DOWN) + SLOW_DOWN
                )
                continue
            server.sendall(b"\r\n".join(head) + b"\r\n\r\n")
            if fault == "cut the body":
                server.sendall(of_client.read(size // 2))
                return
            _copy(of_client.read, server, size)
            answer = _read_head(of_server)
            if answer is None:
                return
            if fault == "cut the answer" and not _body_bytes(answer):
                return
            client.sendall(b"\r\n".join(answer) + b"\r\n\r\n")
            size = 0 if method == "HEAD" else _body_bytes(answer)
            if fault == "cut the answer":
                _copy(of_server.read, client, size // 2)
                return
            _copy(of_server.read, client, size)


def _read_head(lines: IO[bytes]) -> list[bytes] | None:
    """Return the lines of a head, None at the end of the connection."""
    head: list[bytes] = []
    while True:
        line = lines.readline()
        if not line:
            return None
        if line == b"\r\n":
            return head
        head.append(line.rstrip(b"\r\n"))


def _body_bytes(head: list[bytes]) -> int:
    for line in head[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _copy(read: Callable[[int], bytes], to: socket.socket, size: int) -> None:
    while size and (data := read(min(size, CHUNK_BYTES))):
        to.sendall(data)
        size -= len(data)
