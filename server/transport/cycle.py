"""face: one request and its answer, between a connection and the application.

To the application a Cycle is ASGI's `receive` and `send`; beside them it is an `asgi.Writer`, the
shorter way for answers whose length is known: a whole answer in one write, files by sendfile. Files
go to a duplicate of the connection's socket, because the event loop keeps the descriptor of the
transport to itself; therefore only while the transport's buffer is empty. With TLS, and while an
earlier answer is still in the buffer, pieces are copied through the transport instead. This module
reads no headers but those that frame the message.
"""

from __future__ import annotations

import asyncio
import http
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from server import asgi, errors, limits
from server.transport import intake as intakes
from storage import model

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Application: TypeAlias = Callable[[asgi.Scope, asgi.Receive, asgi.Send], Awaitable[None] | None]
"""An ASGI application, or a function that may answer before it returns, and then returns None."""

CLOSE: Final = (b"connection", b"close")
CLOSE_LINE: Final = b"connection: close\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
FAILED: Final = b"Internal Server Error"
LOST: Final = (ConnectionError, TimeoutError)
MORE: Final = getattr(socket, "MSG_MORE", 0)
"""The head waits for a body's first bytes, to share their packet, where the system can."""
STATUS_LINES: Final[Mapping[int, bytes]] = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in http.HTTPStatus
}
_DISCONNECT: Final = {"type": "http.disconnect"}
_UNFIT: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

log = logging.getLogger("boathouse.transport")


class Outlet(Protocol):
    """The methods of a connection that a Cycle uses."""

    transport: Any

    @property
    def is_plain(self) -> bool:
        """Whether the connection has no TLS, so that files can be sent by sendfile."""

    def duplicate(self) -> socket.socket:
        """Return the connection's socket under a descriptor of our own; it never blocks."""

    def writable(self) -> Awaitable[None]:
        """Wait until the duplicate takes bytes again, or the connection is lost."""

    @property
    def is_writable(self) -> bool:
        """Whether the transport takes more bytes at once."""

    async def drain(self) -> None:
        """Wait until the transport takes more bytes, or the connection is lost."""

    async def turn(self) -> None:
        """Wait for a turn to copy a step of a body."""

    def resume_reading(self) -> None:
        """Resume reading the body from the socket."""

    async def take_over(self, cycle: Cycle, size_bytes: int) -> intakes.SocketIntake | None:
        """Let another process receive the rest of the body, size_bytes; None if the event loop has
        to. Reading is paused then."""

    def end_after(self, cycle: Cycle) -> None:
        """Take no further request, and close once the client can read this whole answer."""

    def run(self, answering: Coroutine[Any, Any, None]) -> None:
        """Run the rest of an answer in a task."""

    def finish(self, cycle: Cycle) -> None:
        """Go on to the next request, after the whole answer of this one is sent."""


class Cycle:
    """One request and its answer. Mutable by nature; used by one task.

    keep_alive: whether the connection may carry another request after this answer. expects: the
    client waits for `100 Continue` before it sends the body. held_bytes: what its connection counts
    for it until it is answered; 0 of a small request that did not wait. unsent_bytes: what of the
    answer's body has not been handed on yet.
    """

    __slots__ = (
        "_arriving",
        "_chunks",
        "_direct",
        "_event",
        "_outlet",
        "_step",
        "_whole",
        "buffered_bytes",
        "chunked",
        "complete",
        "disconnected",
        "expects",
        "held_bytes",
        "keep_alive",
        "request_complete",
        "scope",
        "sent_bytes",
        "started",
        "status",
        "unsent_bytes",
    )

    def __init__(
        self,
        outlet: Outlet,
        scope: asgi.Scope,
        *,
        keep_alive: bool,
        expects: bool,
        held_bytes: int = 0,
    ) -> None:
        self._outlet = outlet
        self._chunks: list[bytes] = []
        self._event: asyncio.Event | None = None
        self._arriving: asyncio.Future[None] | None = None
        self._direct = False
        self._step: Callable[[], Awaitable[None] | None] | None = None
        self._whole = False
        self.scope = scope
        self.keep_alive = keep_alive
        self.expects = expects
        self.held_bytes = held_bytes
        self.buffered_bytes = 0
        self.request_complete = False
        self.disconnected = False
        self.started = False
        self.complete = False
        self.chunked = False
        self.status = 0
        self.unsent_bytes = 0
        self.sent_bytes = 0

    def start(self, application: Application) -> Awaitable[None] | None:
        """Call the application. Return what `finish` has to await, None if it has answered, or
        will in a step of `wait_for`."""
        try:
            rest = application(self.scope, self.receive, self.send)
        except Exception:
            log.exception("the application raised an exception")
            self._fail()
            return None
        if rest is None and self._step is None and not self.complete:
            self._check_answered()
        return rest

    async def finish(self, rest: Awaitable[None]) -> None:
        """Await the application; log an exception, and answer 500 if no answer has started."""
        try:
            await rest
        except Exception:
            log.exception("the application raised an exception")
            self._fail()
        else:
            self._check_answered()

    async def run(self, application: Application) -> None:
        """Call the application and await the rest of its answer."""
        rest = self.start(application)
        if rest is not None:
            await self.finish(rest)

    def wait_for(
        self, future: asyncio.Future[Any], step: Callable[[], Awaitable[None] | None]
    ) -> None:
        """Call step once future is done. It answers, or returns an awaitable of the rest."""
        self._step = step
        future.add_done_callback(self._take_step)

    def _take_step(self, _: asyncio.Future[Any]) -> None:
        step, self._step = self._step, None
        assert step is not None, "one future is waited for at a time"
        try:
            rest = step()
        except Exception:
            log.exception("the application raised an exception")
            self._fail()
            return
        if rest is not None:
            self._outlet.run(self.finish(rest))
        elif self._step is None:
            self._check_answered()

    def _check_answered(self) -> None:
        """End an answer that is not complete though the application has returned."""
        if not self.complete and not self.disconnected:
            log.error("the application returned before its answer was complete")
            self._fail()

    def arriving(self) -> asyncio.Future[None]:
        """Return a future that is done once `take_body` returns the body, or never will."""
        self._begin_body()
        self._outlet.resume_reading()
        arriving = self._arriving = asyncio.get_running_loop().create_future()
        self.wake()
        return arriving

    def take_body(self) -> bytes | None:
        """Return the request's whole body if it has arrived; None if `receive` is to be called."""
        if not self.request_complete or self._whole or self.disconnected or self.complete:
            return None
        self._whole = True
        self.expects = False
        chunks, self._chunks = self._chunks, []
        self.buffered_bytes = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def take_over(self, size_bytes: int) -> intakes.SocketIntake | None:
        """Let another process receive the rest of the body, size_bytes, from the socket.

        None with TLS, and for a connection that ends after this request: its parser must see the
        whole body.
        """
        if (
            self._chunks
            or self.request_complete
            or self.disconnected
            or self.complete
            or not self.keep_alive
        ):
            return None
        intake = await self._outlet.take_over(self, size_bytes)
        if intake is not None:
            self._begin_body()
        return intake

    def feed(self, data: bytes) -> None:
        """Take bytes of the request's body. Bytes that arrive after the answer are dropped."""
        if not self.complete:
            self._chunks.append(data)
            self.buffered_bytes += len(data)
            if self._event is not None or self._arriving is not None:
                self.wake()

    def feed_end(self) -> None:
        """Take the end of the request's body."""
        self.request_complete = True
        if self._event is not None or self._arriving is not None:
            self.wake()

    def lose(self) -> None:
        """Note that the client has disconnected."""
        self.disconnected = True
        self.wake()

    def stall(self) -> None:
        """Note that the client has stalled within the body, and end `receive`'s wait."""
        self.keep_alive = False
        self.scope["extensions"][asgi.STALLED] = {}
        self.wake()

    def wake(self) -> None:
        """Wake `receive`."""
        if self._event is not None:
            self._event.set()
        if self._arriving is not None and (
            self.request_complete
            or self.disconnected
            or self.complete
            or asgi.STALLED in self.scope["extensions"]
        ):
            arriving, self._arriving = self._arriving, None
            if not arriving.done():
                arriving.set_result(None)

    async def receive(self) -> dict[str, Any]:
        """Return ASGI's next event: bytes of the body, its end, or the client's disconnection."""
        self._begin_body()
        while not self.has_news():
            self._outlet.resume_reading()
            self._event = event = asyncio.Event()
            await event.wait()
        if self.disconnected or self.complete:
            return _DISCONNECT
        chunks = self._chunks
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = []
        self.buffered_bytes = 0
        self._whole = self.request_complete
        return {"type": "http.request", "body": body, "more_body": not self._whole}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take ASGI's next message of an answer."""
        if self.disconnected or self.complete:
            return
        outlet = self._outlet
        if message["type"] == "http.response.start":
            assert not self.started, "an answer starts once"
            outlet.transport.write(self._begin_message(message["status"], message["headers"]))
            return
        assert self.started, "an answer has a head before its body"
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        more = message.get("more_body", False)
        if self.chunked:
            pieces = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            if not more:
                pieces.append(b"0\r\n\r\n")
            outlet.transport.write(b"".join(pieces))
        elif body:
            outlet.transport.write(body)
            self.unsent_bytes -= len(body)
        self.sent_bytes += len(body)
        if more:
            await outlet.drain()
        else:
            self.end()

    @property
    def idle(self) -> bool:
        """Whether the transport's buffer is empty."""
        return bool(self._outlet.transport.get_write_buffer_size() == 0)

    @property
    def is_ready(self) -> bool:
        """Whether the client is connected, and the transport accepts a whole answer now."""
        return self._outlet.is_writable and not self.disconnected

    def send_now(self, status: int, lines: bytes, body: asgi.WholeBody) -> int:
        """Send a whole answer, only if it `is_ready`; return how many bytes its body has."""
        head = self._head(status, lines)
        if isinstance(body, tuple):
            size_bytes = sum(map(len, body))
            self._outlet.transport.writelines((head, *body))
        else:
            size_bytes = len(body)
            if size_bytes <= limits.JOINED_BODY_BYTES_MAX:
                self._outlet.transport.write(head + body)
            else:
                self._outlet.transport.writelines((head, body))
        self.sent_bytes = size_bytes
        self.end()
        return size_bytes

    async def send_whole(self, status: int, lines: bytes, body: asgi.WholeBody) -> None:
        """Send a whole answer; if the client has disconnected, drop it."""
        await self._outlet.drain()
        if not self.disconnected:
            self.send_now(status, lines, body)

    async def begin(self, status: int, lines: bytes, *, size_bytes: int) -> None:
        """Send the head of an answer whose body has size_bytes. Raises ClientDisconnected."""
        self.unsent_bytes = size_bytes
        self._direct = self._outlet.is_plain and self.idle
        await self._write(self._head(status, lines), MORE if size_bytes else 0)

    async def write(self, data: asgi.InMemory) -> None:
        """Send the body's next bytes. Raises ClientDisconnected."""
        await self._write(data, 0)
        self._count(len(data))

    async def send_file(
        self, files: asgi.FileReader, descriptor: int, piece: model.FileSlice
    ) -> None:
        """Send a piece of an open file; other requests get a turn between two steps.

        Raises ClientDisconnected, or BodyMissing if the file ends before.
        """
        offset, stop = piece.offset, piece.offset + piece.length
        is_small = piece.length <= limits.COPIED_BYTES
        while offset < stop:
            if not (self._direct or is_small):
                await self._outlet.turn()
            step_bytes = limits.READ_BYTES if self._direct else limits.COPIED_BYTES
            step_bytes = min(step_bytes, stop - offset)
            if self._direct:
                try:
                    sent = files.send_at(descriptor, offset, step_bytes, to=self._socket().fileno())
                except BlockingIOError:
                    await self._outlet.writable()
                    continue
                except LOST:
                    raise self._gone() from None
            else:
                data = files.read_at(descriptor, offset, step_bytes)
                await self._write(data, 0)
                sent = len(data)
            if sent == 0:
                raise asgi.truncated(piece, offset)
            offset += sent
            self._count(sent)
            if self._direct and sent < step_bytes:
                await self._outlet.writable()
            elif self._direct and offset < stop:
                await asyncio.sleep(0)

    def end(self) -> None:
        """Take the end of the answer."""
        self.complete = True
        # The connection drops the rest of a body that the application does not read.
        if self._chunks:
            self._chunks = []
            self.buffered_bytes = 0
        if self._event is not None or self._arriving is not None:
            self.wake()
        if not self.keep_alive:
            self._outlet.end_after(self)
        self._outlet.finish(self)

    def _begin_body(self) -> None:
        """Send `100 Continue` to a client that waits for it."""
        if self.expects and not self.disconnected and not self._outlet.transport.is_closing():
            self.expects = False
            self._outlet.transport.write(CONTINUE)

    def has_news(self) -> bool:
        """Whether `receive` returns at once."""
        return bool(
            self._chunks
            or (self.request_complete and not self._whole)
            or self.disconnected
            or self.complete
            or asgi.STALLED in self.scope["extensions"]
        )

    def _count(self, size_bytes: int) -> None:
        self.unsent_bytes -= size_bytes
        self.sent_bytes += size_bytes

    def _fail(self) -> None:
        """Answer 500 if the application sent no answer, or cut off an incomplete one."""
        transport = self._outlet.transport
        if self.disconnected or transport.is_closing() or self.complete:
            return
        self.keep_alive = False
        if not self.started:
            transport.write(self._head(500, b"content-length: %d\r\n" % len(FAILED)) + FAILED)
        self.end()

    def _head(self, status: int, lines: bytes) -> bytes:
        self.started = True
        self.status = status
        self.expects = False
        head = STATUS_LINES[status] + lines
        if b"\r\n" + CLOSE_LINE in head:
            self.keep_alive = False
        elif not self.keep_alive:
            head += CLOSE_LINE
        return head + b"\r\n"

    def _begin_message(self, status: int, headers: Headers) -> bytes:
        """Return the head of an ASGI answer, framed by its length or in chunks."""
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            assert not _UNFIT.search(name + value), f"a header that cannot be sent: {name!r}"
        for name, value in headers:
            if name.lower() == b"content-length":
                self.unsent_bytes = int(value)
            elif name.lower() == b"connection" and value.lower() == b"close":
                self.keep_alive = False
        bodiless = self.scope["method"] == "HEAD" or status in asgi.BODILESS
        if b"content-length" not in names and not bodiless:
            if self.scope["http_version"] == "1.1":
                self.chunked = True
                headers = [*headers, (b"transfer-encoding", b"chunked")]
            else:
                self.keep_alive = False
        if not self.keep_alive:
            headers = [*[each for each in headers if each[0].lower() != b"connection"], CLOSE]
        return self._head(status, b"".join([b"%b: %b\r\n" % each for each in headers]))

    async def _write(self, data: asgi.InMemory, flags: int) -> None:
        if not self._direct:
            if self.disconnected or self._outlet.transport.is_closing():
                raise self._gone()
            self._outlet.transport.write(data)
            await self._outlet.drain()
            return
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket().send(left, flags) :]
            except BlockingIOError:
                await self._outlet.writable()
            except LOST:
                raise self._gone() from None

    def _socket(self) -> socket.socket:
        if self.disconnected or self._outlet.transport.is_closing():
            raise self._gone()
        return self._outlet.duplicate()

    def _gone(self) -> errors.ClientDisconnected:
        if not self.disconnected:
            # The transport has not noticed it yet, and would wait for the rest of the answer.
            self.disconnected = True
            self._outlet.transport.abort()
        return errors.ClientDisconnected("the client went away")
