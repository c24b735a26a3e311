"""The least that a GET, and a small durable PUT, cost on an event loop.

`python -m tests.bench.floor_loop FOLDER` listens on a free port of 127.0.0.1 and prints the port. A
GET sends a file of FOLDER: small ones from memory in one write, others by sendfile, with a turn for
other connections between two steps. A PUT's body gets its MD5, its CRC64NVME and one row of an LMDB
file; a writer thread puts all that wait into one transaction and syncs it, then they are answered.
There is no signature, no right, no log, no condition and no bound. uvloop and httptools, which the
server uses too, do the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import queue
import socket
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias, cast

from tests.bench import bare

STEP_BYTES = 256 * 1024
"""As in the server (`limits.READ_BYTES`), so that both let other connections wait as long."""
IN_MEMORY_BYTES_MAX = 64 * 1024
MAP_SIZE_BYTES = 8 << 30

Row: TypeAlias = tuple[bytes, bytes, "Connection"]
"""A key, its value, and the connection that waits for both to be durable."""


def started(folder: Path) -> AbstractContextManager[bare.Bare]:
    """Start the program in a process of its own, on a folder's files; end it afterwards."""
    return bare.program("tests.bench.floor_loop", str(folder))


class Writer:
    """The thread that makes rows durable. One group of them is with it at a time. Mutable."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        import lmdb

        self._environment = lmdb.open(str(folder / "rows"), map_size=MAP_SIZE_BYTES)
        self._loop = loop
        self._groups: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        self._waiting: list[Row] = []
        self._is_busy = False
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, row: Row) -> None:
        """Make a row durable, then answer its connection."""
        self._waiting.append(row)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        rows, self._waiting = self._waiting, []
        self._groups.put(rows)

    def _run(self) -> None:
        while True:
            rows = self._groups.get()
            with self._environment.begin(write=True) as transaction:
                transaction.cursor().putmulti([row[:2] for row in rows])
            self._loop.call_soon_threadsafe(self._deliver, rows)

    def _deliver(self, rows: list[Row]) -> None:
        for _, value, connection in rows:
            connection.answer(b'ETag: "%b"\r\nContent-Length: 0' % value[:32], b"")
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._loop.call_soon(self._hand_over)


class Connection(asyncio.Protocol):
    """One connection; one request at a time. Mutable by nature."""

    def __init__(self, folder: Path, writer: Writer, small: dict[bytes, bytes]) -> None:
        import httptools
        from awscrt import checksums

        self._crc64nvme = checksums.crc64nvme
        self._folder = folder
        self._writer = writer
        self._small = small
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._target = b""
        self._body: list[bytes] = []
        self._file = self._offset = self._size_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._socket: socket.socket = transport.get_extra_info("socket").dup()
        self._socket.setblocking(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._socket.close()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._target = url

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            self._get()
            return
        body, self._body = b"".join(self._body), []
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest().encode()
        crc = self._crc64nvme(body, 0).to_bytes(8, "big")
        self._writer.put((self._target, etag + crc + body, self))

    def answer(self, lines: bytes, body: bytes) -> None:
        """Send a whole answer."""
        self._transport.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (lines, body))

    def _get(self) -> None:
        body = self._small.get(self._target)
        if body is None:
            path = self._folder / self._target.decode()[1:]
            size_bytes = path.stat().st_size
            if size_bytes > IN_MEMORY_BYTES_MAX:
                self._begin_file(path, size_bytes)
                return
            body = self._small[self._target] = path.read_bytes()
        self.answer(b"Content-Length: %d" % len(body), body)

    def _begin_file(self, path: Path, size_bytes: int) -> None:
        self._file, self._offset, self._size_bytes = os.open(path, os.O_RDONLY), 0, size_bytes
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size_bytes
        self._socket.send(head, socket.MSG_MORE)
        self._send_step()

    def _send_step(self) -> None:
        count = min(STEP_BYTES, self._size_bytes - self._offset)
        try:
            sent = os.sendfile(self._socket.fileno(), self._file, self._offset, count)
        except BlockingIOError:
            self._loop.add_writer(self._socket.fileno(), self._resume)
            return
        except OSError:
            os.close(self._file)
            self._transport.abort()
            return
        self._offset += sent
        if self._offset == self._size_bytes:
            os.close(self._file)
        else:
            self._loop.call_soon(self._send_step)

    def _resume(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._send_step()


async def _serve(folder: Path) -> None:
    loop = asyncio.get_running_loop()
    writer = Writer(folder, loop)
    small: dict[bytes, bytes] = {}
    listener = socket.create_server(("127.0.0.1", 0))
    server: Any = await loop.create_server(lambda: Connection(folder, writer, small), sock=listener)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(Path(sys.argv[1])))
