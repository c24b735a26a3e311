"""face: one client's connection: bytes in, requests out, answers in their order.

uvicorn accepts connections and takes this class through its `http=` setting; nothing of uvicorn's
own protocol is used. httptools parses. What this class adds is bounds: a head, and whatever else
comes without moving a body on (trailers, chunk extensions), has `limits.HEAD_BYTES_MAX` bytes and
`limits.HEAD_SECONDS_MAX` seconds; a connection without a request has `KEEP_ALIVE_SECONDS`.

Requests may be pipelined. The next one is answered once the transport accepts more bytes, so that
at most one answer per connection waits for its client. `server.held` counts its bytes, and those of
requests that wait for their turn.

A body may take as long as it likes, and so may an answer, as long as they move. `look`, which a
`transport.watch.Watch` calls, ends what stands still: a client that owes more of its body and sends
none gets its request ended by `errors.BodyStalled`; one that takes nothing of its answer is cut
off. Taking is what the client's system acknowledges, which it does in steps of up to its receive
window: a client that acknowledges less than one window per time-out counts as stalled. What waits
for the server itself is never ended here.

A connection that ends after an answer receives and drops what is left of the request's body first,
for `limits.UNREAD_BODY_SECONDS_MAX` at most: a socket that is closed while bytes wait in it answers
with a reset, and the client loses the answer. Bytes that are no request end the parsing; they are
answered with 400 once the requests before them are answered. The bytes after a refused head have no
known end: up to `limits.UNREAD_HEAD_BYTES_MAX` of them are dropped, for
`limits.UNREAD_HEAD_SECONDS_MAX`.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import fcntl
import logging
import socket
import struct
import termios
import urllib.parse
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

import httptools

from server import asgi, dispatch, errors, held, limits, receiving, targets
from server.transport import cycle as cycles
from server.transport import intake as intakes
from server.transport import turns

TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n"
TOO_CROWDED: Final = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n"
CATALOG_CROWDED: Final = (
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n"
)
"""To clients of the Iceberg catalog, which take a 503 to a commit for an unknown outcome. S3's
clients do not retry a 429."""
TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n"
CLOSING: Final = b"connection: close\r\n\r\n"
WITH_BODY: Final = (b"POST ", b"PUT ")
HEAD_END: Final = b"\r\n\r\n"
FRAMING: Final = (b"content-length", b"transfer-encoding")
FRAMED: Final = b"POST / HTTP/1.1\r\nhost: a\r\n%b\r\n"
FRAMED_BY_LENGTH: Final = FRAMED % b"content-length: %d\r\n"
"""A head for a parser that is to go on with a body of so many bytes."""
BUFFER: Final = "boathouse_buffer"
HOLDINGS: Final = "boathouse_holdings"
TURNS: Final = "boathouse_turns"
"""The attributes of uvicorn's server state by which all connections share these."""
_INVALID_BODY: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>BadRequest</Code>'
    b"<Message>These bytes are no HTTP request.</Message></Error>"
)
INVALID: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/xml\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_INVALID_BODY), _INVALID_BODY)
)
"""To bytes that name no face, in the words of S3."""

Headers: TypeAlias = list[tuple[bytes, bytes]]
Recall: TypeAlias = Callable[[bytes], Any]
"""Returns the stored parsed form of a head's bytes, or None."""
FaceOfHead: TypeAlias = Callable[[bytes, Headers], str]
"""Returns the name of the face of a target and the headers that have come."""

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_INT = struct.Struct("i")

access_log = logging.getLogger("boathouse.access")


class Connection(asyncio.BufferedProtocol):
    """One connection. Built by uvicorn: config has the application, server_state what all
    connections share (`connections`, `tasks`, `total_requests`), app_state the lifespan's state.

    A head that comes in one piece, as most do, starts no timer.
    """

    head_bytes_max = limits.HEAD_BYTES_MAX
    head_seconds_max: float = limits.HEAD_SECONDS_MAX
    keep_alive_seconds: float = limits.KEEP_ALIVE_SECONDS

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        # `begin` answers some requests without a task; see `program.application`.
        self._application: cycles.Application = getattr(
            config.loaded_app, "begin", config.loaded_app
        )
        self._recall: Recall = getattr(config.loaded_app, "recall", _recall_nothing)
        self._face_of_head: FaceOfHead = getattr(config.loaded_app, "face_of_head", _no_face)
        self._receivers: receiving.Receivers | None = getattr(config.loaded_app, "receivers", None)
        self._server = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_event_loop()
        self._parser = _new_parser(self)
        self.transport: Any = None
        self.is_plain = True
        self._tls_version = ""
        self._addresses: tuple[Any, Any] = (None, None)
        self._write_paused = False
        self._read_paused = False
        self._drained: asyncio.Event | None = None
        self._duplicate: socket.socket | None = None
        self._intake: intakes.SocketIntake | None = None
        self._blocked: asyncio.Future[None] | None = None
        # The request that is being read, and those that wait for their turn to be answered.
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects = False
        self._in_head = True
        self._between = False
        self._upgrading = False
        self._resuming = False
        self._deaf = False
        self._dropping = False
        self._dropped_bytes = 0
        self._refusal: bytes | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._received_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.newest: cycles.Cycle | None = None
        self._answering: cycles.Cycle | None = None
        self._unstarted: cycles.Cycle | None = None
        self._waiting: collections.deque[cycles.Cycle] = collections.deque()
        self._answered = 0
        self._owing: tuple[str, int, int] | None = None
        self._owing_since = 0.0
        self.address = ""
        if not hasattr(server_state, HOLDINGS):
            setattr(server_state, HOLDINGS, held.Holdings(monotonic=self._loop.time))
        self._holdings: held.Holdings = getattr(server_state, HOLDINGS)
        if not hasattr(server_state, TURNS):
            setattr(server_state, TURNS, turns.CopyTurns())
        self._turns: turns.CopyTurns = getattr(server_state, TURNS)
        # The event loop writes there, and what it wrote is copied before it waits. Servers that run
        # in threads of one process have a buffer each.
        if not hasattr(server_state, BUFFER):
            setattr(server_state, BUFFER, memoryview(bytearray(limits.READ_BYTES)))
        self._buffer: memoryview = getattr(server_state, BUFFER)
        self._head_buffer: memoryview = self._buffer[: limits.HEAD_READ_BYTES]
        self._piece_bytes = 0
        self._begun_bytes = 0
        self._unanswered_bytes = 0
        self._reported_bytes = 0

    # What the event loop calls.

    def connection_made(self, transport: Any) -> None:
        self._server.connections.add(self)
        self.transport = transport
        self.is_plain = transport.get_extra_info("sslcontext") is None
        if not self.is_plain:
            version = transport.get_extra_info("ssl_object").version()
            self._tls_version = (version or "").removeprefix("TLSv")
            transport.set_write_buffer_limits(high=limits.TLS_HELD_BACK_BYTES_MAX)
        self._addresses = (
            _address(transport.get_extra_info("peername")),
            _address(transport.get_extra_info("sockname")),
        )
        client = self._addresses[0]
        self.address = client[0] if client else ""
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._holdings.report(self, 0)
        self._stop_timer()
        if self._intake is not None:
            self._intake.stop()
        if self._ending is not None:
            self._ending.cancel()
        for cycle in (self._answering, *self._waiting):
            if cycle is not None and not cycle.complete:
                cycle.lose()
        for cycle in self._waiting:
            # Never started, and the scope knows the cycle: without this their heads, megabytes of
            # objects, would wait for a garbage collection.
            del cycle.scope["extensions"]
        self._waiting.clear()
        self._write_paused = False
        if self._drained is not None:
            self._drained.set()
        if self._blocked is not None:
            self._unblock()
        if self._duplicate is not None:
            self._duplicate.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the event loop is to receive the next bytes, of which little is a body's
        beginning: the rest of a large one another process receives."""
        if self._between or self._in_head:
            return self._head_buffer
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self._dropping:
            self._drop(data)
            return
        if self._deaf:
            return
        if self._refusal is not None:  # bytes after a refused head are dropped
            self._pause_reading()
            return
        size_bytes = head_bytes = self._piece_bytes = len(data)
        self._received_bytes += size_bytes
        head = None
        if self._between:
            is_idle = self._answering is None and not (
                self._waiting or self._write_paused or self._ending is not None
            )
            if is_idle:  # then a request is answered at once
                # Other requests end with their head; written out, as each call counts (0029).
                if data[:1] == b"P":
                    head = _head_before_body(data)
                elif size_bytes <= limits.REPEAT_BYTES_MAX and data.endswith(HEAD_END):
                    head = data
                if head is not None:
                    repeat = self._recall(head)
                    if repeat is not None and len(head) + repeat.body_bytes >= size_bytes:
                        self._serve_again(head, data, repeat)
                        return
            self._between = False
            self._in_head = True
            if size_bytes > limits.HEAD_UNCOUNTED_BYTES_MAX:
                head_bytes = _bytes_of_head(data)
        self._head_bytes += head_bytes
        self._feed(data)
        if self._in_head:
            self._begun_bytes += max(self._piece_bytes, 0)
        unstarted = self._unstarted
        if unstarted is not None:
            if (
                head is not None
                and self._is_alone(unstarted)
                and _may_be_remembered(head, data, unstarted)
            ):
                unstarted.scope["extensions"][asgi.WHOLE] = head
            self._start_at_once(unstarted)
        if self._dropping or self.transport.is_closing():
            return
        if self._refusal is not None:
            self._report()
            return
        if self._head_bytes > self.head_bytes_max:
            self._end(TOO_LARGE)
        elif self._in_head and self._timer is None:
            self._start_timer()
        if (
            self._unanswered_bytes
            or self._head_bytes > limits.HEAD_UNCOUNTED_BYTES_MAX
            or (self._in_head and self._held_of_head() > limits.HEAD_UNCOUNTED_BYTES_MAX)
        ):
            self._report()

    def pause_writing(self) -> None:
        self._write_paused = True
        self._report()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._drained is not None:
            self._drained.set()
            self._drained = None
        if self._answering is None and self._waiting and not self.transport.is_closing():
            self._start(self._waiting.popleft())

    # What uvicorn calls.

    def shutdown(self) -> None:
        """Take no further request; close now, or after the answers in progress."""
        if self._dropping or self.newest is None or self.newest.complete:
            self.transport.close()
        else:
            self.newest.keep_alive = False

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        if self._ending is not None:
            raise errors.MalformedRequest("a request behind the last one")
        if len(self._waiting) >= limits.PIPELINED_MAX:
            self.transport.abort()
            raise errors.MalformedRequest("too many requests before the first is answered")
        self._between = False
        self._in_head = True
        self._begun_bytes = 0
        self._target = b""
        self._expects = False

    def on_url(self, url: bytes) -> None:
        if not self._resuming:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come after the body and are not part of the head, which is checked already.
        if not self._in_head:
            return
        if len(self._headers) >= limits.HEADERS_RECEIVED_MAX:
            self._end(TOO_LARGE)
            raise errors.MalformedRequest("too many headers")
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value.rstrip(b" \t") if value[-1:] in b" \t" else value))

    def on_headers_complete(self) -> None:
        if self._resuming:
            self._resuming = False
            return
        parser = self._parser
        method = parser.get_method()
        version = parser.get_http_version()
        headers = self._headers
        target = self._target
        if target[:1] != b"/" or method == b"CONNECT":
            target, headers = _with_path(method, target, headers)
        if b"#" in target:
            target = target.partition(b"#")[0]
        path, _, query = target.partition(b"?")
        if version == "1.0":
            _check_framing(headers)
        is_next = self._answering is None and not self._waiting and not self._write_paused
        held_bytes = 0
        if (
            not is_next
            or max(self._head_bytes, self._begun_bytes) > limits.HEAD_UNCOUNTED_BYTES_MAX
            or len(headers) > limits.HEADERS_UNCOUNTED_MAX
        ):
            held_bytes = _size_of(target, headers)
            self._unanswered_bytes += held_bytes
            self._piece_bytes -= held_bytes
        # Set only here: an error above is answered as one of a malformed head.
        self._in_head = False
        self._headers = []
        self._head_bytes = self._begun_bytes = 0
        self._stop_timer()
        text = path.decode("latin-1")
        client, server = self._addresses
        scope: asgi.Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "scheme": "http" if self.is_plain else "https",
            "client": client,
            "server": server,
            "method": method.decode("latin-1"),
            "root_path": "",
            "path": urllib.parse.unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "state": self._app_state.copy() if self._app_state else {},
        }
        self._upgrading = parser.should_upgrade()
        # The bytes after CONNECT are meant for another server.
        self._deaf = method == b"CONNECT"
        keep_alive = version == "1.1" and not self._deaf and parser.should_keep_alive()
        cycle = cycles.Cycle(
            self, scope, keep_alive=keep_alive, expects=self._expects, held_bytes=held_bytes
        )
        if self._deaf:
            cycle.feed_end()
        scope["extensions"] = {asgi.WRITER: cycle}
        if self._tls_version:
            scope["extensions"][asgi.TLS_VERSION] = self._tls_version
        self.newest = cycle
        if is_next:
            # It starts after this piece is parsed, which may contain its body.
            self._answering = self._unstarted = cycle
        else:
            self._waiting.append(cycle)
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        self._piece_bytes -= len(body)
        cycle = self.newest
        assert cycle is not None, "a body has a head"
        cycle.feed(body)
        if cycle is not self._answering and not cycle.complete:
            cycle.held_bytes += len(body)
            self._unanswered_bytes += len(body)
        if cycle.buffered_bytes > limits.BUFFERED_BODY_BYTES_MAX:
            self._pause_reading()

    def on_message_complete(self) -> None:
        if self._upgrading:
            return  # the parser believes that another protocol follows; see `_feed`
        self._head_bytes = 0
        self._between = True
        if self.newest is not None:
            self.newest.feed_end()
        if self._ending is not None:
            self.transport.close()

    # What a cycle calls; see cycles.Outlet.

    def duplicate(self) -> socket.socket:
        """Return the connection's socket under a descriptor of our own; it never blocks."""
        if self._duplicate is None:
            bare = self.transport.get_extra_info("socket")
            self._duplicate = socket.fromfd(bare.fileno(), bare.family, bare.type)
            self._duplicate.setblocking(False)
        return self._duplicate

    async def writable(self) -> None:
        """Wait until the duplicate takes bytes again, or the connection is lost."""
        self._blocked = self._loop.create_future()
        self._loop.add_writer(self.duplicate().fileno(), self._unblock)
        await self._blocked

    @property
    def is_writable(self) -> bool:
        """Whether the transport takes more bytes at once."""
        return not self._write_paused

    async def drain(self) -> None:
        """Wait until the transport takes more bytes, or the connection is lost."""
        while self._write_paused:
            if self._drained is None:
                self._drained = asyncio.Event()
            await self._drained.wait()

    async def turn(self) -> None:
        """Wait for a turn to copy a step of a body."""
        await self._turns.take()

    def resume_reading(self) -> None:
        """Resume reading the body from the socket, unless another process does."""
        if self._read_paused and self._intake is None:
            self._read_paused = False
            self.transport.resume_reading()

    async def take_over(self, cycle: cycles.Cycle, size_bytes: int) -> intakes.SocketIntake | None:
        """Let another process receive the rest of the body, size_bytes.

        None with TLS, and if the event loop has to go on reading, also because this process has no
        descriptor left, or no other process can be started.
        """
        receivers = self._receivers
        if not self.is_plain or receivers is None or cycle is not self.newest:
            return None
        self._pause_reading()
        if not receivers.is_ready and not await receivers.start():
            return None
        if self.transport.is_closing() or cycle.has_news():
            return None
        assert self._intake is None, "one process reads a body"
        bare = self.transport.get_extra_info("socket")
        try:
            own = socket.fromfd(bare.fileno(), bare.family, bare.type)
        except OSError:
            return None
        self._intake = intakes.SocketIntake(
            own, receivers, size_bytes=size_bytes, ended=self._go_on_behind
        )
        return self._intake

    def end_after(self, cycle: cycles.Cycle) -> None:
        """Close, or first receive the rest of the request's body and drop it."""
        transport = self.transport
        if cycle.request_complete or transport.is_closing():
            transport.close()
        elif self._ending is None:
            self._end_within(limits.UNREAD_BODY_SECONDS_MAX)

    def finish(self, cycle: cycles.Cycle) -> None:
        """Go on to the next request."""
        self._server.total_requests += 1
        self._answering = None
        if access_log.isEnabledFor(logging.INFO):
            self._log(cycle)
        # The scope knows the cycle: without this each request would wait for a garbage collection.
        del cycle.scope["extensions"]
        if cycle.held_bytes:
            self._unanswered_bytes -= cycle.held_bytes
            cycle.scope["headers"] = ()  # an idle connection keeps its last request's scope
        if self._reported_bytes or cycle.sent_bytes > limits.HELD_BACK_BYTES_MIN:
            self._report()
        if self.transport.is_closing():
            return
        if self._waiting:
            self.resume_reading()
            if not self._write_paused:
                self._start(self._waiting.popleft())
        elif self._refusal is not None:
            self._answer_last(self._refusal)
        else:
            if self._read_paused:
                self.resume_reading()
            self._answered += 1

    # What `server.held` asks and does; see held.Holder.

    @property
    def answering(self) -> bool:
        """Whether a request's head is complete and its answer is not sent."""
        return self._answering is not None or self.transport.get_write_buffer_size() > 0

    def give_way(self) -> None:
        """Close the connection and release its memory."""
        self._reported_bytes = 0
        if self.answering:
            self.transport.abort()
        else:
            self._end(CATALOG_CROWDED if self._is_of_catalog() else TOO_CROWDED)

    def _is_of_catalog(self) -> bool:
        """Return whether what has come of the head that is being read is the Iceberg catalog's."""
        target, headers = self._target, self._headers
        if target[:1] != b"/":
            try:
                target, headers = _with_path(self._parser.get_method(), target, headers)
            except errors.MalformedRequest:
                return False
        return self._face_of_head(target, headers) == dispatch.ICEBERG

    # What `transport.watch` calls.

    def look(self, *, now: float, idle_seconds: float) -> None:
        """End what this connection's client has not moved on for idle_seconds; 0 means: at all.

        now: seconds of a clock that never goes back, the same in every call.
        """
        owing = self._owed()
        if owing != self._owing:
            self._owing = owing
            self._owing_since = now
        self._report()
        if owing is None:
            return
        bound = self.keep_alive_seconds if owing[0] == "ask" else idle_seconds
        if now - self._owing_since >= bound:
            self._end_stalled(owing[0])

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # No protocol is offered but this one (RFC 9110, section 7.8): the request is
                # served as it stands, and a fresh parser goes on with its body.
                assert self._upgrading, "only an upgrade ends the parsing"
                if self._deaf:
                    return
                data = data[upgrade.args[0] :]
                self._upgrading = False
                self._resuming = True
                self._parser = _new_parser(self)
                assert self.newest is not None, "an upgrade has a head"
                self._parser.feed_data(_framing_of(self.newest.scope["headers"]))
                continue
            except httptools.HttpParserError:
                if not self._is_ending:
                    self._refuse()
            return

    def _go_on_behind(self, intake: intakes.SocketIntake) -> None:
        """Read the connection again behind what another process has read of the newest body."""
        self._intake = None
        if self.transport.is_closing():
            return
        taken_bytes = intake.taken_bytes
        if taken_bytes is None:  # nothing tells where the next request begins
            self.transport.abort()
            return
        self._received_bytes += taken_bytes
        # httptools cannot skip bytes: a fresh parser begins behind them.
        self._parser = _new_parser(self)
        left_bytes = intake.size_bytes - taken_bytes
        if left_bytes:
            self._resuming = True
            self._parser.feed_data(FRAMED_BY_LENGTH % left_bytes)
        else:
            self.on_message_complete()
        self.resume_reading()

    def _report(self) -> None:
        """Report the bytes of heads and answers that this connection holds, if they changed."""
        if self.transport.is_closing():
            return
        size_bytes = self._unanswered_bytes + self.transport.get_write_buffer_size()
        if self._in_head or self._between:
            size_bytes += self._held_of_head()
        if size_bytes != self._reported_bytes:
            self._reported_bytes = size_bytes
            self._holdings.report(self, size_bytes)

    def _is_alone(self, cycle: cycles.Cycle) -> bool:
        """Say whether what was just parsed is one request, or its head with the beginning of its
        body, and nothing else: then the same bytes between two requests mean the same again."""
        return (
            self._between == cycle.request_complete
            and not self._in_head
            and not self._upgrading
            and self._refusal is None
            and not self._waiting
            and cycle.keep_alive
        )

    def _serve_again(self, head: bytes, data: bytes, repeat: Any) -> None:
        """Serve a repeated request without parsing its head; the parser stays between two requests,
        or gets what is left of a body.

        data: its head, and what has come of its body.
        """
        client, server = self._addresses
        scope: asgi.Scope = {
            **repeat.scope,
            "scheme": "http" if self.is_plain else "https",
            "client": client,
            "server": server,
            "state": self._app_state.copy() if self._app_state else {},
        }
        if repeat.query:
            scope["query_string"] = repeat.query
        if repeat.raw_path:
            scope["raw_path"] = repeat.raw_path
            text = repeat.raw_path.decode()
            scope["path"] = urllib.parse.unquote(text) if "%" in text else text
        cycle = cycles.Cycle(self, scope, keep_alive=True, expects=repeat.expects)
        scope["extensions"] = {asgi.WRITER: cycle, asgi.REPEAT: repeat, asgi.WHOLE: head}
        if self._tls_version:
            scope["extensions"][asgi.TLS_VERSION] = self._tls_version
        self.newest = self._answering = cycle
        come_bytes = len(data) - len(head)
        if come_bytes == repeat.body_bytes:
            if come_bytes:
                cycle.feed(data[len(head) :])
            cycle.request_complete = True
        else:
            self._between = False
            self._resuming = True
            self._parser.feed_data(FRAMED_BY_LENGTH % repeat.body_bytes)
            if come_bytes:
                self._feed(data[len(head) :])
        self._start_at_once(cycle)

    def _held_of_head(self) -> int:
        """Return an upper estimate of the bytes of the head that is being read.

        A head that begins within a piece, behind other requests, may be all that is left of it.
        """
        headers_bytes = len(self._headers) * limits.HEADER_OVERHEAD_BYTES
        return max(self._head_bytes, self._begun_bytes) + headers_bytes

    def _start_at_once(self, cycle: cycles.Cycle) -> None:
        """Start the application in this turn. A task is created only if it has to await."""
        self._unstarted = None
        rest = cycle.start(self._application)
        if rest is not None:
            self.run(cycle.finish(rest))

    def _start(self, cycle: cycles.Cycle) -> None:
        """Start the application in a task, so that other connections get a turn before it."""
        self._answering = cycle
        self.run(cycle.run(self._application))

    def run(self, answering: Coroutine[Any, Any, None]) -> None:
        """Run the rest of an answer in a task."""
        task = self._loop.create_task(answering)
        tasks = self._server.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, None
        self._loop.remove_writer(self.duplicate().fileno())
        if blocked is not None and not blocked.done():
            blocked.set_result(None)

    def _start_timer(self) -> None:
        self._timer = self._loop.call_later(self.head_seconds_max, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._answering is not None or self._waiting:
            self._start_timer()  # the next head may come late while this answer is going out
        elif not self.transport.is_closing():
            self._end(TOO_SLOW)

    def _end(self, status: bytes) -> None:
        """Answer bytes that are no request with status, after the earlier answers, and close."""
        if self._in_head or self._between or self._answering is None:
            self._refuse_in_turn(status + CLOSING)
        else:
            self.transport.close()  # too many trailers or chunk extensions in the newest request

    def _refuse(self) -> None:
        """Answer bytes that are no request with 400, after the earlier answers, and close."""
        newest = self.newest
        if self._in_head or self._between or newest is None:
            self._refuse_in_turn(INVALID)
        elif newest is not self._answering and not newest.started:
            # The body of the last request that waits is broken; this is its answer.
            self._waiting.remove(newest)
            self._unanswered_bytes -= newest.held_bytes
            newest.lose()
            self._refuse_in_turn(INVALID)
        elif not newest.started:
            self._answer_last(INVALID)
        else:
            # The body of a request whose answer has begun.
            self.transport.close()

    def _refuse_in_turn(self, answer: bytes) -> None:
        """Parse no further; send answer once the requests before it are answered, and close."""
        if self._answering is None and not self._waiting:
            self._answer_last(answer)
            return
        self._refusal = answer
        self._stop_timer()
        self._drop_head()

    def _drop_head(self) -> None:
        self._parser = _new_parser(self)
        self._headers = []
        self._target = b""
        self._head_bytes = self._begun_bytes = 0

    @property
    def _is_ending(self) -> bool:
        return self._dropping or self._refusal is not None or self.transport.is_closing()

    def _answer_last(self, answer: bytes) -> None:
        """Send answer, take no further request, and close once the client can read the answer."""
        transport = self.transport
        if self._dropping or transport.is_closing():
            return
        if self._ending is not None:  # an answer is out, and no byte may follow it
            transport.close()
            return
        transport.write(answer)
        self._dropping = True
        self._stop_timer()
        if self._answering is not None:  # its body is broken, and this is its answer
            self._answering.lose()
            self._unstarted = None
        self._drop_head()
        self._report()
        self._end_within(limits.UNREAD_HEAD_SECONDS_MAX)
        if self._read_paused:
            self.resume_reading()

    def _drop(self, data: bytes) -> None:
        """Drop bytes received after the last answer; too many of them end the connection."""
        self._dropped_bytes += len(data)
        if self._dropped_bytes > limits.UNREAD_HEAD_BYTES_MAX:
            self.transport.close()

    def _end_within(self, seconds: float) -> None:
        """Shut the sending side, and close after seconds, or earlier if the client closes."""
        transport = self.transport
        self._ending = self._loop.call_later(seconds, transport.close)
        if transport.can_write_eof():  # not with TLS, whose client reads the answer's length
            transport.write_eof()

    def _owed(self) -> tuple[str, int, int] | None:
        """Return what the client is to do next and how far it is: `take` its answer, `send` its
        body, or `ask` for something; None while the server's own work is waited for."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waiting_bytes or self._blocked is not None or self.transport.is_closing():
            answering = self._answering
            unsent_bytes = 0 if answering is None else answering.unsent_bytes
            return "take", waiting_bytes + self._kernel_bytes(), unsent_bytes
        if self._dropping or self._refusal is not None:
            return None
        newest, intake = self.newest, self._intake
        if intake is not None:
            if not intake.waits_for_client:
                return None
            return "send", self._received_bytes + (intake.taken_bytes or 0), 0
        if self._in_head or self._between:
            if self._between and self._answering is None:
                return "ask", self._answered, 0
            return None
        if self._read_paused or newest is None or (newest.expects and not newest.started):
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
        elif owing == "ask" or self.newest is None or self.newest.complete:
            self.transport.close()
        elif not self.newest.started:
            self.newest.stall()
            if self._intake is not None:
                self._intake.stop()

    def _log(self, cycle: cycles.Cycle) -> None:
        scope = cycle.scope
        client = scope["client"]
        target = scope["raw_path"].decode("latin-1")
        access_log.info(
            '%s "%s %s HTTP/%s" %d %d',
            client[0] if client else "-",
            scope["method"],
            target + ("?..." if scope["query_string"] else ""),
            scope["http_version"],
            cycle.status,
            cycle.sent_bytes,
        )


def _head_before_body(data: bytes) -> bytes | None:
    """Return the head of a POST or PUT that came between two requests, up to the first empty line;
    None if it is too long to be remembered, and for other requests."""
    if not data.startswith(WITH_BODY):
        return None
    end = data.find(HEAD_END, 0, limits.REPEAT_BYTES_MAX)
    return None if end < 0 else data[: end + len(HEAD_END)]


def _bytes_of_head(data: bytes) -> int:
    """Return how many bytes of a piece that begins a request its head has at most.

    A body that comes in the same piece is not held as a head is. A line end may come before a
    request, so that an empty line is no end of a head then.
    """
    end = data.find(HEAD_END) if data[:1].isalpha() else -1
    return len(data) if end < 0 else end + len(HEAD_END)


def _may_be_remembered(head: bytes, data: bytes, cycle: cycles.Cycle) -> bool:
    """Return whether the head of a request that came alone means the same before any body of the
    same length: its only framing is that length.

    data: the request, or its head with the beginning of its body.
    """
    come_bytes = cycle.buffered_bytes
    if len(head) + come_bytes != len(data):
        return False
    if cycle.request_complete and not come_bytes:
        return True
    framing = [value for name, value in cycle.scope["headers"] if name in FRAMING]
    if len(framing) != 1 or not framing[0].isdigit():
        return False
    return (int(framing[0]) == come_bytes) == cycle.request_complete


def _no_face(_target: bytes, _headers: Headers) -> str:
    """For an application that has no faces."""
    return ""


def _recall_nothing(_: bytes) -> None:
    """For an application that stores no parsed requests."""


def _new_parser(connection: Connection) -> Any:
    parser = httptools.HttpRequestParser(connection)
    # Bytes after `Connection: close` are dropped, and do not affect the answer.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _size_of(target: bytes, headers: Headers) -> int:
    """Return about how much memory a head takes."""
    size_bytes = sum([len(name) + len(value) for name, value in headers])
    return len(target) + size_bytes + len(headers) * limits.HEADER_OVERHEAD_BYTES


def _with_path(method: bytes, target: bytes, headers: Headers) -> tuple[bytes, Headers]:
    """Return path and query of a target that is no path, and the headers with its host.

    Raises MalformedRequest.
    """
    authority, path = targets.parse(method, target)
    return path, headers if authority is None else _with_host(headers, authority)


def _with_host(headers: Headers, authority: bytes) -> Headers:
    """Replace the Host header, if there is exactly one, by an absolute target's authority."""
    hosts = [position for position, (name, _) in enumerate(headers) if name == b"host"]
    if len(hosts) != 1:
        return headers  # refused by the application
    replaced = list(headers)
    replaced[hosts[0]] = (b"host", authority)
    return replaced


def _check_framing(headers: Headers) -> None:
    """Raise MalformedRequest for a transfer coding, which HTTP/1.0 does not have
    (RFC 9112, section 6.1)."""
    if any(name == b"transfer-encoding" for name, _ in headers):
        raise errors.MalformedRequest("HTTP/1.0 has no transfer coding")


def _framing_of(headers: Headers) -> bytes:
    """Return a head with the framing of these headers: what a fresh parser needs to go on with the
    body of a request that asked for another protocol."""
    return FRAMED % b"".join([b"%b: %b\r\n" % each for each in headers if each[0] in FRAMING])


def _address(name: Any) -> tuple[str, int] | None:
    """Return host and port of a socket's name; a Unix socket has none."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
