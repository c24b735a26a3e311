"""face: an answer on its way out past the server's own `send`: whole at once, files by sendfile.

That `send` matches every header against two patterns, takes two calls for the smallest answer, and
lets each byte of a file be copied through this process. A Wire does for one request what it does,
and knows uvicorn's cycle as `server.connection` knows its protocol. Files go to a duplicate of the
connection's socket, since the loop keeps the bare descriptor to itself; so a body of pieces may
begin only while the transport holds nothing back. Knows of no header but `connection: close`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Sequence
from typing import Any, Final, Protocol

from uvicorn.protocols.http import httptools_impl

from server import asgi, errors, limits

CLOSE: Final = (b"connection", b"close")
LOST: Final = (ConnectionError, TimeoutError)
MORE: Final = getattr(socket, "MSG_MORE", 0)
"""The head waits for a body's first bytes, to share their packet, where the system can."""


class Outlet(Protocol):
    """What a Wire needs of its connection."""

    transport: Any
    flow: Any

    def duplicate(self) -> socket.socket:
        """Return the connection's socket under a descriptor of our own; it never blocks."""

    def sent(self) -> None:
        """Hear that much was handed to the transport, which may hold it for long."""

    def writable(self) -> Awaitable[None]:
        """Wait until the duplicate takes bytes again, or the connection is lost."""


class Wire:
    """How one answer goes out: `send`; or `begin`, then `write` and `send_file`, then `end`.

    status and headers: as in ASGI's `http.response.start`, the length among them.
    """

    __slots__ = ("_cycle", "_outlet")

    def __init__(self, outlet: Outlet, cycle: Any) -> None:
        self._outlet = outlet
        self._cycle = cycle

    @property
    def idle(self) -> bool:
        """Whether nothing that was sent before still waits in the transport."""
        return bool(self._outlet.transport.get_write_buffer_size() == 0)

    async def send(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole answer; one that nobody waits for any more is dropped."""
        if self._outlet.flow.write_paused:
            await self._outlet.flow.drain()
        if not self._cycle.disconnected:
            self._outlet.transport.writelines((self._head(status, headers), body))
            self.end()
            if len(body) > limits.HELD_BACK_BYTES_MIN:
                self._outlet.sent()

    async def begin(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], *, size_bytes: int
    ) -> None:
        """Send the head of an answer whose body has size_bytes. Only while `idle`."""
        self._cycle.expected_content_length = size_bytes
        await self._write(self._head(status, headers), MORE if size_bytes else 0)

    async def write(self, data: bytes) -> None:
        """Send the body's next bytes. Raises ClientDisconnected."""
        await self._write(data, 0)
        self._cycle.expected_content_length -= len(data)

    async def send_file(self, files: asgi.Files, descriptor: int, offset: int, count: int) -> None:
        """Send count bytes of a file from offset on; everybody gets a turn between two steps.

        Raises ClientDisconnected, or OSError if the file ends before.
        """
        stop = offset + count
        while offset < stop:
            step_bytes = min(limits.READ_BYTES, stop - offset)
            try:
                sent = files.send_at(descriptor, offset, step_bytes, to=self._socket().fileno())
            except BlockingIOError:
                await self._outlet.writable()
                continue
            except LOST:
                raise self._gone() from None
            if sent == 0:
                raise OSError(f"the file ends at {offset}, before {stop}")
            offset += sent
            self._cycle.expected_content_length -= sent
            if sent < step_bytes:
                await self._outlet.writable()
            elif offset < stop:
                await asyncio.sleep(0)

    def end(self) -> None:
        """Say that the whole answer is out."""
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._outlet.transport.close()
        cycle.on_response()

    def _head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        cycle = self._cycle
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        lines = [httptools_impl.STATUS_LINE[status], *(b"%b: %b\r\n" % each for each in headers)]
        if CLOSE in headers:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    async def _write(self, data: bytes, flags: int) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket().send(left, flags) :]
            except BlockingIOError:
                await self._outlet.writable()
            except LOST:
                raise self._gone() from None

    def _socket(self) -> socket.socket:
        if self._cycle.disconnected or self._outlet.transport.is_closing():
            raise self._gone()
        return self._outlet.duplicate()

    def _gone(self) -> errors.ClientDisconnected:
        # The transport hears of it later than we, and an answer left undone would be our fault.
        self._cycle.disconnected = True
        self._outlet.transport.abort()
        return errors.ClientDisconnected("the client went away")
