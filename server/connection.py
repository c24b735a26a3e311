"""face: what a connection may send before its request is one, and how long it may stand still.

The HTTP parser keeps whatever a client sends until the head is whole, and would wait for it for
ever. Here a head, and whatever else comes without moving a body on (trailers, chunk extensions),
has `limits.HEAD_BYTES_MAX` bytes and `limits.HEAD_SECONDS_MAX` seconds; then the connection ends.

A body may take as long as it likes, and so may an answer, as long as they move. A Watch looks at
every connection now and then: a client that owes more of its body and sends none gets its request
ended by `errors.BodyStalled`; one that takes nothing of its answer is cut off. What waits for the
server itself is never ended here. Taking is what the client's system acknowledges, which it does in
steps of up to its receive window: who reads less than that in the time given has stopped, however
steadily. What is no request is answered only in its own turn. The one module that knows uvicorn's
protocol class.

Without TLS, a request's scope offers a `server.wire.Wire` for its answer, and the connection's
socket a duplicate that the Wire writes to.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import math
import socket
import struct
import termios
from collections.abc import Callable, Collection
from typing import Any, Final

from uvicorn.protocols.http import httptools_impl

from server import asgi, errors, held, limits, targets, wire

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
TOO_CROWDED = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n"
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n"
CLOSING = b"connection: close\r\n\r\n"
LOOK_SECONDS: Final = 0.5
HOLDINGS: Final = "boathouse_holdings"
"""The attribute of uvicorn's server state by which all connections share their Holdings."""

_INT = struct.Struct("i")


class Connection(httptools_impl.HttpToolsProtocol):
    """uvicorn's, with bounds. A head that comes in one piece, as most do, starts no timer."""

    head_bytes_max = limits.HEAD_BYTES_MAX
    head_seconds_max: float = limits.HEAD_SECONDS_MAX

    _head_bytes = 0
    _received_bytes = 0
    _in_head = True
    _between = False
    _timer: asyncio.TimerHandle | None = None
    _owing: tuple[str, int, int] | None = None
    _owing_since = 0.0
    _duplicate: socket.socket | None = None
    _blocked: asyncio.Future[None] | None = None
    _unanswered_bytes = 0
    """Large heads among those of requests that are not answered yet."""
    _reported_bytes = 0
    _answering: Any = None
    """The cycle whose turn it is; `cycle` is the newest, which may still be waiting."""

    def look(self, *, now: float, idle_seconds: float) -> None:
        """End what this connection's client has not moved on for idle_seconds; 0 means: at all.

        now: seconds of a clock that never goes back, the same in every call.
        """
        owing = self._owed()
        if owing != self._owing:
            self._owing = owing
            self._owing_since = now
        self._report()
        if owing is not None and now - self._owing_since >= idle_seconds:
            self._end_stalled(owing[0])

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not hasattr(self.server_state, HOLDINGS):
            setattr(self.server_state, HOLDINGS, held.Holdings(monotonic=self.loop.time))
        self._holdings = getattr(self.server_state, HOLDINGS)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        self._holdings.report(self, 0)
        if self._blocked is not None:
            self._unblock()
        if self._duplicate is not None:
            self._duplicate.close()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        self._received_bytes += len(data)
        if self._between:
            self._between = False
            self._in_head = True
        super().data_received(data)
        if self._head_bytes > self.head_bytes_max and not self.transport.is_closing():
            self._end(TOO_LARGE)
        elif self._in_head and self._timer is None:
            self._start_timer()
        if self._head_bytes > limits.HEAD_UNCOUNTED_BYTES_MAX or self._unanswered_bytes:
            self._report()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= limits.PIPELINED_MAX:
            self.transport.abort()
            raise errors.MalformedRequest("too many requests before the first is answered")
        self._between = False
        self._in_head = True
        self._unset_keepalive_if_required()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/") or self.parser.get_method() == b"CONNECT":
            self._take_target()
        super().on_headers_complete()
        if self._head_bytes > limits.HEAD_UNCOUNTED_BYTES_MAX:
            cycle: Any = self.cycle
            cycle.head_bytes = len(self.url) + sum(
                len(name) + len(value) for name, value in self.headers
            )
            self._unanswered_bytes += cycle.head_bytes
        # Not before: what is raised above is answered as a head that cannot be read.
        self._in_head = False
        self._head_bytes = 0
        self._stop_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind a body is no part of the head, which was judged already.
        if self._in_head:
            if len(self.headers) >= limits.HEADERS_RECEIVED_MAX:
                self._end(TOO_LARGE)
                raise errors.MalformedRequest("too many headers")
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        self._between = True
        super().on_message_complete()
        if self.cycle.response_complete:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        scope = self._answering.scope
        # The Wire there knows the cycle: without this each request would wait for a collection.
        scope.pop("extensions", None)
        if self._unanswered_bytes:
            self._unanswered_bytes -= getattr(self._answering, "head_bytes", 0)
            # An idle connection keeps its last request's scope.
            scope["headers"] = ()
            if self.cycle is self._answering:
                self.headers = []
        super().on_response_complete()
        if self._reported_bytes:
            self._report()

    @property
    def answering(self) -> bool:
        """See server.held.Holder."""
        return self._is_answering()

    def give_way(self) -> None:
        """See server.held.Holder."""
        self._reported_bytes = 0
        if self._is_answering():
            self.transport.abort()
        else:
            self._end(TOO_CROWDED)
            self.headers = []
            self.url = b""

    def sent(self) -> None:
        """See server.wire.Outlet."""
        self._report()

    def _report(self) -> None:
        if self.transport.is_closing():
            return
        size_bytes = self._unanswered_bytes + self.transport.get_write_buffer_size()
        if self._in_head or self._between:
            size_bytes += self._head_bytes
        if size_bytes != self._reported_bytes:
            self._reported_bytes = size_bytes
            self._holdings.report(self, size_bytes)

    def send_400_response(self, msg: str) -> None:
        if self._in_head or self._between:
            in_turn = not self._is_answering()
        else:
            in_turn = not self.pipeline and not self.cycle.response_started
        if in_turn:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def duplicate(self) -> socket.socket:
        """See server.wire.Outlet."""
        if self._duplicate is None:
            bare = self.transport.get_extra_info("socket")
            self._duplicate = socket.fromfd(bare.fileno(), bare.family, bare.type)
            self._duplicate.setblocking(False)
        return self._duplicate

    async def writable(self) -> None:
        """See server.wire.Outlet."""
        self._blocked = self.loop.create_future()
        self.loop.add_writer(self.duplicate().fileno(), self._unblock)
        await self._blocked

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, None
        self.loop.remove_writer(self.duplicate().fileno())
        if blocked is not None and not blocked.done():
            blocked.set_result(None)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if self.scheme == "http":
            cycle.scope["extensions"] = {asgi.WIRE: wire.Wire(self, cycle)}
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _take_target(self) -> None:
        """Give a target that is no path the form of one. Raises MalformedRequest."""
        authority, self.url = targets.parse(self.parser.get_method(), self.url)
        if authority is not None:
            hosts = [at for at, (name, _) in enumerate(self.headers) if name == b"host"]
            if len(hosts) == 1:  # any other number is refused later
                self.headers[hosts[0]] = (b"host", authority)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds_max, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._is_answering():
            self._start_timer()  # the next head may come late while this answer is going out
        elif not self.transport.is_closing():
            self._end(TOO_SLOW)

    def _end(self, status: bytes) -> None:
        if not self._is_answering():
            self.transport.write(status + CLOSING)
        self.transport.close()

    def _owed(self) -> tuple[str, int, int] | None:
        """Return what is waited for from the client and how far it is, or None."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waiting_bytes or self._blocked is not None or self.transport.is_closing():
            answering = self._answering
            unsent_bytes = 0 if answering is None else answering.expected_content_length
            return "take", waiting_bytes + self._kernel_bytes(), unsent_bytes
        if self._in_head or self._between or self.flow.read_paused:
            return None
        if self.cycle.waiting_for_100_continue and not self.cycle.response_started:
            return None
        return "send", self._received_bytes, 0

    def _kernel_bytes(self) -> int:
        """Return what the kernel has of the answer and the client has not; 0 where none says."""
        with contextlib.suppress(OSError, ValueError):
            descriptor = self.transport.get_extra_info("socket").fileno()
            size: int = _INT.unpack(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_INT.size)))[0]
            return size
        return 0

    def _end_stalled(self, owing: str) -> None:
        if owing == "take":
            self.transport.abort()
        elif self.cycle.response_complete:
            self.transport.close()
        elif not self.cycle.response_started:
            self.cycle.keep_alive = False
            self.cycle.scope.setdefault("extensions", {})[asgi.STALLED] = {}
            self.cycle.message_event.set()  # the application hears of it where it waits

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


class Watch:
    """Looks at all connections for as long as `run` runs. Mutable: draining makes it impatient.

    connections: the server's own, which come and go. monotonic: a clock in seconds.
    """

    def __init__(
        self,
        connections: Collection[object],
        *,
        idle_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        self._ends_at = math.inf

    def drain(self) -> None:
        """From now on, wait little for a client that makes no progress, and for no other long."""
        self._idle_seconds = min(self._idle_seconds, limits.DRAIN_IDLE_SECONDS_MAX)
        self._ends_at = min(self._ends_at, self._monotonic() + limits.DRAIN_SECONDS_MAX)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Look at every connection once."""
        now = self._monotonic()
        idle_seconds = self._idle_seconds if now < self._ends_at else 0.0
        for each in tuple(self._connections):
            if isinstance(each, Connection):
                each.look(now=now, idle_seconds=idle_seconds)
