"""face: one HTTP request and one response, over bare ASGI.

A Request holds the request as it was received: the path stays percent-encoded, because decoding it
twice, or in the wrong place, makes `%2F` a path into another bucket. A response's body is bytes and
slices of files. A slice is sent in `limits.READ_BYTES` steps with a turn for other requests between
two of them: by the scope's Writer if it has one, otherwise read and passed to the server's `send`,
which never yields while the socket accepts data. Contains no face, no signature, no error code.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import re
import urllib.parse
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import msgspec
import orjson

from server import errors, held, limits
from storage import blobs, model
from storage import errors as storage_errors

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

InMemory: TypeAlias = bytes | memoryview
"""Bytes, among them a bytearray that was joined in steps, or a view of such."""
Piece: TypeAlias = InMemory | model.FileSlice
"""Bytes in memory or a part of a file."""
WholeBody: TypeAlias = InMemory | tuple[InMemory, ...]
"""A response body in memory, in one piece or several."""
ResponseHeaders: TypeAlias = tuple[tuple[str, str], ...]

BODILESS = frozenset({204, 304})
HEADER_NAMES_REMEMBERED = 1024
STALLED = "boathouse.stalled"
"""The scope's extension by which a connection reports that its client stopped within the body; it
is checked whenever `receive` has returned."""


WRITER = "boathouse.writer"
"""The scope's extension for responses that bypass `send`: a Writer."""


WHOLE = "boathouse.whole"
"""The scope's extension with the bytes of the request's head, if it came alone or with the
beginning of its body, and may be remembered."""
TLS_VERSION = "boathouse.tls_version"
"""The scope's extension with the version of the connection's TLS, such as 1.3; absent without."""
REPEAT = "boathouse.repeat"
"""The scope's extension of a request that came before: a `server.repeats.Repeat`."""


class Writer(Protocol):
    """Sends a response without ASGI messages: `send_now`, if it `is_ready`; `send_whole`; or
    `begin`, then `write` and `send_file`, then `end`. lines: the headers as they stand in the
    head, each ended by CRLF, with the length among them. `take_body` returns a body that has
    arrived, `arriving` waits for it, `take_over` lets another process receive a large one's rest,
    `wait_for` sends a response without a task. `expects`: the client waits for `100 Continue`. See
    `server.transport.cycle.Cycle`."""

    expects: bool

    @property
    def is_ready(self) -> bool: ...

    def send_now(self, status: int, lines: bytes, body: WholeBody) -> int: ...

    async def send_whole(self, status: int, lines: bytes, body: WholeBody) -> None: ...

    async def begin(self, status: int, lines: bytes, *, size_bytes: int) -> None: ...

    async def write(self, data: InMemory) -> None: ...

    async def send_file(
        self, files: FileReader, descriptor: int, piece: model.FileSlice
    ) -> None: ...

    def end(self) -> None: ...

    def take_body(self) -> bytes | None: ...

    def arriving(self) -> asyncio.Future[None]: ...

    async def take_over(self, size_bytes: int) -> blobs.Intake | None: ...

    def wait_for(
        self, future: asyncio.Future[Any], step: Callable[[], Awaitable[None] | None]
    ) -> None: ...


_NO_EXTENSIONS: Mapping[str, Any] = MappingProxyType({})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class FileReader(Protocol):
    """The methods of `storage.disk.Disk` that this module uses to read files."""

    def open(self, path: Path) -> int: ...

    def read_at(self, descriptor: int, offset: int, count: int) -> bytes: ...

    def send_at(self, descriptor: int, offset: int, count: int, *, to: int) -> int: ...

    def close(self, descriptor: int) -> None: ...


class Headers:
    """The request's headers. Names are lower case; values are Latin-1 text, one per wire byte.

    raw: as received. joined: by name, a repeated header as its values joined by commas; the hot
    path reads these, in bytes.
    """

    __slots__ = ("joined", "raw")

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self.raw = raw
        joined = dict(raw)
        if len(joined) != len(raw):
            joined = _join_repeated(raw)
        self.joined: Mapping[bytes, bytes] = joined

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the value of the header with this lower-case name."""
        value = self.joined.get(name.encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a header, in the order received."""
        wanted = name.encode("latin-1")
        return tuple(value.decode("latin-1") for other, value in self.raw if other == wanted)

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of each header as received, repetitions included."""
        for name, value in self.raw:
            yield name.decode("latin-1"), value.decode("latin-1")

    def __contains__(self, name: str) -> bool:
        return name.encode("latin-1") in self.joined


class LateHeaders(Headers):
    """Headers that are made when they are first read: those of a repeated request seldom are.

    make: returns them as received.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Sequence[tuple[bytes, bytes]]]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        """Return `raw` or `joined`, which are not set before the first read of either."""
        if name not in Headers.__slots__:
            raise AttributeError(name)
        Headers.__init__(self, self._make())
        return getattr(self, name)


class Request:
    """One request. Parts are parsed when first used, and only once.

    bodies: the budgets for bodies that are read whole; `release` gives the share back. headers,
    body_bytes: if they are parsed already. proven: whether the caller's identity is proven. noted:
    what the exchange keeps for the access record of the request, None if none is due.
    """

    __slots__ = (
        "_bodies",
        "_body",
        "_body_bytes",
        "_pairs",
        "_receive",
        "_scope",
        "_segments",
        "_share",
        "body_finished",
        "body_started",
        "client_ip",
        "headers",
        "method",
        "noted",
        "proven",
        "query",
        "raw_path",
        "received_bytes",
        "request_id",
        "scheme",
        "writer",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        *,
        request_id: str,
        bodies: held.Bodies | None = None,
        headers: Headers | None = None,
        body_bytes: int | None = None,
    ) -> None:
        self.method: str = scope["method"]
        self.raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        self.query: bytes = scope["query_string"]
        self.headers = Headers(scope["headers"]) if headers is None else headers
        self.scheme: str = scope["scheme"]
        client = scope.get("client")
        self.client_ip: str = client[0] if client else ""
        self.request_id = request_id
        self.body_started = False
        self.body_finished = body_bytes == 0
        self.received_bytes = 0
        self.proven = False
        self.noted: Any = None
        self.writer: Writer | None = scope.get("extensions", _NO_EXTENSIONS).get(WRITER)
        self._scope = scope
        self._receive = receive
        self._body: bytes | None = None
        self._bodies = bodies
        self._body_bytes = body_bytes
        self._share: tuple[held.Budget, int] | None = None
        self._segments: tuple[str, ...] | None = None
        self._pairs: tuple[tuple[str, str], ...] | None = None

    @property
    def host(self) -> str:
        """The Host header, port included; empty if there is none."""
        return self.headers.joined.get(b"host", b"").decode("latin-1")

    @property
    def origin(self) -> str:
        """Scheme and Host as the client used them; later requests must use the same."""
        return f"{self.scheme}://{self.host}"

    def extension(self, name: str) -> Any:
        """Return an extension of the scope, None if it has not this one."""
        return self._scope.get("extensions", _NO_EXTENSIONS).get(name)

    @property
    def tls_version(self) -> str:
        """The version of the connection's TLS, such as 1.3; empty without TLS."""
        return self.extension(TLS_VERSION) or ""

    @property
    def segments(self) -> tuple[str, ...]:
        """The path, split at `/` and then decoded once; `/` itself is the empty tuple."""
        if self._segments is None:
            self._segments = parse_segments(self.raw_path)
        return self._segments

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The query's names and values in order, decoded; a name without value has the value ''."""
        if self._pairs is None:
            self._pairs = parse_pairs(self.query)
        return self._pairs

    def parameter(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of name in the query."""
        for other, value in self.pairs:
            if other == name:
                return value
        return default

    def arrived(self) -> bytes | None:
        """Return the whole body if it has arrived, kept for the next call; else None."""
        if self._body is None and not self.body_started and self.writer is not None:
            self._body = self.writer.take_body()
            if self._body is not None:
                self.body_started = self.body_finished = True
                self.received_bytes = len(self._body)
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, or again from memory after `read`.

        Raises ClientDisconnected and BodyStalled. A body can be received only once.
        """
        if self._body is not None:
            if self._body:
                yield self._body
            return
        assert not self.body_started, "the body was already taken"
        self.body_started = True
        more = True
        while more and not self.body_finished:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise errors.ClientDisconnected(
                    "the client disconnected before its body was complete"
                )
            more = message.get("more_body", False)
            if more and STALLED in self._scope.get("extensions", ()):
                raise errors.BodyStalled("the request's body did not arrive in time")
            if message.get("body"):
                self.received_bytes += len(message["body"])
                yield message.pop("body")  # not kept while another process receives the rest
        self.body_finished = True

    async def take_over(self, *, size_bytes: int) -> blobs.Intake | None:
        """Let another process receive the rest of a large body, before or in a loop over `chunks`.

        Call `note_taken` once it has. None for a body whose length is not known to be
        size_bytes, for one that is nearly received, and where only the event loop can read.
        """
        if self.writer is None or b"transfer-encoding" in self.headers.joined:
            return None
        left_bytes = size_bytes - self.received_bytes
        if left_bytes < limits.INTAKE_BYTES_MIN or self.content_length != size_bytes:
            return None
        return await self.writer.take_over(left_bytes)

    def note_taken(self, count: int) -> None:
        """Count the bytes of the body that another process has received."""
        self.received_bytes += count
        self.body_finished = self.received_bytes == self.content_length

    def arriving(self, *, limit_bytes: int) -> asyncio.Future[None] | None:
        """Return a future that is done once `arrived` returns the body, or never will.

        None for a body that may be larger than limit_bytes, or that is received already.
        """
        declared = self.content_length
        if self.body_started or self.writer is None or declared is None or declared > limit_bytes:
            return None
        return self.writer.arriving()

    def read_now(self, *, limit_bytes: int) -> bytes | None:
        """Do what `read` does for a small body that has arrived and was not read before; else
        return None."""
        declared = self.content_length
        if self._body is not None or declared is None:
            return None
        if declared > min(limit_bytes, limits.SMALL_BODY_BYTES_MAX):
            return None
        if self._bodies is not None and self._share is None:
            budget = self._bodies.small
            if not budget.take_now(declared):
                return None
            self._share = (budget, declared)
        return self.arrived()

    async def read(self, *, limit_bytes: int) -> bytes:
        """Return the whole body, kept for the next call.

        Raises BodyTooLarge beyond the limit, and ServerBusy while other bodies use the memory.
        """
        if self._body is None:
            declared = self.content_length
            if declared is not None and declared > limit_bytes:
                raise _too_large(limit_bytes)
            if self._bodies is not None and self._share is None:
                share_bytes = limit_bytes if declared is None else declared
                budget = self._bodies.budget_for(share_bytes, proven=self.proven)
                await budget.take(share_bytes)
                self._share = (budget, share_bytes)
            # The buffer becomes the value, so a body is never in memory twice. A large one is
            # allocated at once: growth in steps leaves holes as large as the body itself.
            parts = io.BytesIO()
            size_bytes = 0
            async for data in self.chunks():
                if declared and declared > limits.SMALL_BODY_BYTES_MAX and not size_bytes:
                    parts.seek(declared - 1)
                    parts.write(b"\0")
                    parts.seek(0)
                size_bytes += len(data)
                if size_bytes > limit_bytes:
                    raise _too_large(limit_bytes)
                parts.write(data)
            parts.truncate(size_bytes)
            self._body = parts.getvalue()
        if len(self._body) > limit_bytes:
            raise _too_large(limit_bytes)
        return self._body

    @contextlib.asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[None]:
        """Take memory from the budget of all bodies while the block runs. Raises ServerBusy."""
        if self._bodies is None:
            yield
            return
        budget = self._bodies.budget_for(size_bytes, proven=self.proven)
        await budget.take(size_bytes)
        try:
            yield
        finally:
            budget.give_back(size_bytes)

    def release(self) -> None:
        """Return the body's share of the memory, after the request."""
        if self._share is not None:
            budget, size_bytes = self._share
            self._share = None
            self._body = b""
            budget.give_back(size_bytes)

    @property
    def content_length(self) -> int | None:
        """The body's Content-Length, or None for chunked transfer coding."""
        if self._body_bytes:
            return self._body_bytes
        text = self.headers.get("content-length")
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise errors.MalformedRequest("Content-Length is not a whole number")
        return int(text)


class Response(msgspec.Struct, frozen=True):
    """One response. Every request makes one, so it is a Struct.

    body: bytes, or pieces in order. Without a content-length header the body's size is sent, so
    a response to HEAD sets the header and leaves the body empty. holding: entered while pieces are
    sent, so that the files of later pieces still exist at their turn. prepared: further headers
    that `encode_headers` encoded; they come before the others.
    """

    status: int
    headers: ResponseHeaders = ()
    body: InMemory | tuple[Piece, ...] = b""
    holding: AbstractContextManager[None] | None = None
    prepared: bytes = b""

    def lines(self) -> bytes:
        """Return the headers as they stand in the head, with the body's size. Raises
        MalformedRequest."""
        lines, headers = self.prepared, self.headers
        if headers:
            lines += encode_headers(headers)
            if "content-length" in [name for name, _ in headers]:
                return lines
        if self.status in BODILESS:
            return lines
        body = self.body
        size_bytes = size_of(body) if isinstance(body, tuple) else len(body)
        return b"%bcontent-length: %d\r\n" % (lines, size_bytes)

    def whole_body(self, method: str) -> WholeBody | None:
        """Return what follows the head of an answer to method, if it is in memory and, in pieces,
        not too large for one step."""
        body = self.body
        if method == "HEAD" or self.status in BODILESS:
            return b""
        if not isinstance(body, tuple):
            return body
        pieces: list[InMemory] = []
        for piece in body:
            if isinstance(piece, model.FileSlice):
                return None
            pieces.append(piece)
        if len(pieces) == 1:
            return pieces[0]
        return tuple(pieces) if size_of(body) <= limits.WHOLE_BODY_BYTES_MAX else None


def json_response(value: object, status: int = 200, headers: ResponseHeaders = ()) -> Response:
    """Return value as a JSON answer."""
    return Response(status, (("content-type", "application/json"), *headers), orjson.dumps(value))


def encode_headers(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return headers as they stand in the head. Raises MalformedRequest for one that cannot."""
    return b"".join(
        [
            b"%b: %b\r\n"
            % (
                _header_name(name),
                value.encode() if value.isascii() and value.isprintable() else _header_value(value),
            )
            for name, value in headers
        ]
    )


def size_of(body: InMemory | tuple[Piece, ...]) -> int:
    """Return how many bytes a response body has."""
    if not isinstance(body, tuple):
        return len(body)
    size_bytes = 0
    for piece in body:  # a loop, because most bodies are one piece, and a generator costs as much
        size_bytes += piece.length if isinstance(piece, model.FileSlice) else len(piece)
    return size_bytes


def truncated(piece: model.FileSlice, offset: int) -> storage_errors.BodyMissing:
    """Return the error of a file that ends at offset, before its piece does."""
    stop = piece.offset + piece.length
    return storage_errors.BodyMissing(
        f"blob {piece.path.name} ends at {offset}, before {stop}", blob=piece.path.name
    )


def parse_segments(raw_path: bytes) -> tuple[str, ...]:
    """Return a path, split at `/` and then decoded once; `/` itself is the empty tuple. Raises
    MalformedRequest."""
    path = raw_path.removeprefix(b"/")
    if b"%" in path:
        return tuple(map(_unquote, path.split(b"/")))
    # Most paths have no escape: the text is split, not decoded segment by segment.
    return tuple(_unquote(path).split("/")) if path else ()


def parse_pairs(query: bytes) -> tuple[tuple[str, str], ...]:
    """Return the names and values of a query or form body. Raises MalformedRequest."""
    if not query:
        return ()
    if len(query) <= limits.QUERY_REMEMBERED_BYTES_MAX:
        return _remembered_pairs(query)
    return _parse_pairs(query)


def _parse_pairs(query: bytes) -> tuple[tuple[str, str], ...]:
    parts = query.split(b"&")
    if len(parts) > limits.QUERY_PAIRS_MAX:
        raise errors.RequestTooLarge(
            f"more than {limits.QUERY_PAIRS_MAX} query parameters", limit="QUERY_PAIRS_MAX"
        )
    if query.isascii():  # then it is decoded at once, but for what is percent-encoded
        return tuple(
            [_parse_pair(part) for part in query.decode().replace("+", " ").split("&") if part]
        )
    pairs = []
    for part in parts:
        if part:
            name, _, value = part.replace(b"+", b" ").partition(b"=")
            pairs.append((_unquote(name), _unquote(value)))
    return tuple(pairs)


def _parse_pair(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    if "%" in part:
        return _unquote(name.encode()), _unquote(value.encode())
    return name, value


class Sender:
    """Sends one response. `started`: its status line is sent, so no other response can be.

    lines: further headers, as they stand in the head. A client that disconnects raises
    ClientDisconnected.
    """

    __slots__ = ("_files", "_lines", "_receive", "_request", "_send", "started")

    def __init__(
        self,
        request: Request,
        receive: Receive,
        send: Send,
        *,
        files: FileReader,
        lines: bytes = b"",
    ) -> None:
        self._request = request
        self._receive = receive
        self._send = send
        self._files = files
        self._lines = lines
        self.started = False

    async def send(self, response: Response) -> int:
        """Send the response and return the number of body bytes passed to the connection.

        The first file is opened before the status line is sent, so that a missing file, or a
        header that cannot be sent, can still become an error.
        """
        lines = self._lines + response.lines()
        body = response.whole_body(self._request.method)
        if body is not None:
            self.started = True
            await self._send_whole(response.status, lines, body)
            return size_of(body)
        pieces = response.body
        assert isinstance(pieces, tuple), "a body in memory is whole"
        with response.holding or contextlib.nullcontext():
            await self._send_pieces(response.status, lines, pieces)
        return size_of(pieces)

    async def _send_whole(self, status: int, lines: bytes, body: WholeBody) -> None:
        if self._request.writer is not None:
            await self._request.writer.send_whole(status, lines, body)
            return
        await self._send(_start_message(status, lines))
        data = b"".join(body) if isinstance(body, tuple) else body
        await self._send({"type": "http.response.body", "body": data})

    async def _send_pieces(self, status: int, lines: bytes, body: tuple[Piece, ...]) -> None:
        reading = _Reading(self._files)
        try:
            for piece in body:
                if isinstance(piece, model.FileSlice):
                    reading.open(piece.path)
                    break
            self.started = True
            writer = self._request.writer
            if writer is not None:
                await writer.begin(status, lines, size_bytes=size_of(body))
                for piece in body:
                    if isinstance(piece, model.FileSlice):
                        descriptor = reading.open(piece.path)
                        await writer.send_file(self._files, descriptor, piece)
                    else:
                        await writer.write(piece)
                writer.end()
            else:
                await self._send_messages(_start_message(status, lines), body, reading)
        finally:
            reading.close()

    async def _send_messages(
        self, start: MutableMapping[str, Any], body: tuple[Piece, ...], reading: _Reading
    ) -> None:
        left = total = size_of(body)
        watch: asyncio.Task[None] | None = None
        try:
            await self._send(start)
            if total >= limits.WATCHED_BODY_BYTES_MIN:
                watch = asyncio.ensure_future(_wait_for_disconnect(self._receive))
            for piece in body:
                for data in (
                    reading.slices(piece) if isinstance(piece, model.FileSlice) else (piece,)
                ):
                    if not data:
                        continue
                    left -= len(data)
                    await self._send(
                        {"type": "http.response.body", "body": data, "more_body": left > 0}
                    )
                    if left > 0:
                        await asyncio.sleep(0)
                        if watch is not None and watch.done():
                            raise errors.ClientDisconnected("the client disconnected")
            if total == 0:
                await self._send({"type": "http.response.body", "body": b""})
        finally:
            if watch is not None:
                watch.cancel()


class _Reading:
    """At most one open file: adjacent slices are often in the same one."""

    __slots__ = ("_descriptor", "_files", "_path")

    def __init__(self, files: FileReader) -> None:
        self._files = files
        self._path: Path | None = None
        self._descriptor = -1

    def open(self, path: Path) -> int:
        if path is not self._path and path != self._path:
            self.close()
            self._descriptor = self._files.open(path)
            self._path = path
        return self._descriptor

    def slices(self, piece: model.FileSlice) -> Iterator[bytes]:
        descriptor = self.open(piece.path)
        offset, stop = piece.offset, piece.offset + piece.length
        while offset < stop:
            data = self._files.read_at(descriptor, offset, min(limits.READ_BYTES, stop - offset))
            if not data:
                raise truncated(piece, offset)
            offset += len(data)
            yield data

    def close(self) -> None:
        if self._path is not None:
            self._path = None
            self._files.close(self._descriptor)


def _join_repeated(raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in raw:
        values.setdefault(name, []).append(value.strip())
    return {name: b",".join(several) for name, several in values.items()}


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _start_message(status: int, lines: bytes) -> MutableMapping[str, Any]:
    """Return ASGI's message for the head of an answer."""
    headers = [tuple(line.split(b": ", 1)) for line in lines.split(b"\r\n")[:-1]]
    return {"type": "http.response.start", "status": status, "headers": headers}


@functools.lru_cache(HEADER_NAMES_REMEMBERED)
def _header_name(name: str) -> bytes:
    if not _TOKEN.fullmatch(name):
        raise errors.MalformedRequest("a response header would have no name")
    return name.encode()


def _header_value(value: str) -> bytes:
    if _CONTROL.search(value):
        # A client's text in a response header must not end that header.
        raise errors.MalformedRequest("a response header would have a control character")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        pass
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise errors.MalformedRequest("a response header would be no UTF-8 text") from None


_remembered_pairs = functools.lru_cache(limits.QUERIES_REMEMBERED_MAX)(_parse_pairs)


def _unquote(part: bytes) -> str:
    try:
        if b"%" in part:
            part = urllib.parse.unquote_to_bytes(part)
        return part.decode()
    except UnicodeDecodeError:
        raise errors.MalformedRequest("the path or the query is not UTF-8 text") from None


def _too_large(limit_bytes: int) -> errors.BodyTooLarge:
    return errors.BodyTooLarge(
        f"the body is longer than {limit_bytes} bytes", limit_bytes=limit_bytes
    )
