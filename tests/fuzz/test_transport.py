"""The transport against h11 over generated and mutated byte streams, split at every byte.

h11 is the oracle of what a stream means. Whatever the transport takes, h11 takes too, with the same
meaning; what the transport refuses beyond h11 stands in STRICTER.
"""

from __future__ import annotations

import asyncio
import re
import types
from collections.abc import Sequence
from typing import NamedTuple

import h11
import hypothesis
import pytest
from hypothesis import strategies as st

from server import asgi, errors
from server.transport import connection
from tests.kit import examples

STRICTER = {
    "a bare line feed ends no line": b"GET / HTTP/1.1\nHost: a\n\n",
    "a method is one that httptools knows": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target is a path, `*` or an http URL": b"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
    "Content-Length stands once": (
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"
    ),
    "Content-Length stands not beside Transfer-Encoding": (
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n"
    ),
    "a header is not continued on the next line": (
        b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n"
    ),
    "HTTP/1.0 has no transfer coding": (
        b"PUT / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
}
"""What the transport refuses and h11 takes. One Host per request is the application's to check."""


LENIENT = re.compile(
    rb"[A-Z]+ [^ \r\n]*  +HTTP/1|[A-Z]+  +[/*]|(?i:transfer-encoding):[ \t]*,|,[ \t]*\r\n"
)
"""What the transport takes beyond h11: several spaces within a request line (RFC 9112, section 3,
allows that) and empty members of a list (RFC 9110, section 5.6.1), besides empty lines before a
request line."""


class Seen(NamedTuple):
    """One request as the application sees it."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Transport:
    """A transport that keeps what is written, and loses the connection when closed."""

    def __init__(self) -> None:
        self.written = b""
        self.closing = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else None

    def write(self, data: bytes) -> None:
        if not self.closing:
            self.written += data

    def writelines(self, pieces: Sequence[bytes]) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def transport_reads(pieces: Sequence[bytes]) -> tuple[list[Seen], bytes]:
    """Return the requests that the application gets of a stream in pieces, and the answers."""
    seen: list[Seen] = []

    async def application(scope, receive, send):
        request = asgi.Request(scope, receive, request_id="r")
        try:
            body = await request.read(limit_bytes=1 << 20)
        except errors.ClientDisconnected:
            return
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        target = scope["raw_path"] + query
        if scope["http_version"] in ("1.0", "1.1"):  # the product answers others with 400
            seen.append(Seen(scope["method"].encode(), target, tuple(scope["headers"]), body))
        await request.writer.send_whole(200, b"content-length: 0\r\n", b"")

    async def run():
        config = types.SimpleNamespace(loaded=True, loaded_app=application)
        state = types.SimpleNamespace(connections=set(), tasks=set(), total_requests=0)
        transport = Transport()
        each = connection.Connection(config, state, {}, asyncio.get_running_loop())
        each.connection_made(transport)
        for piece in pieces:
            if transport.closing:
                break
            each.data_received(piece)
            if len(pieces) == 1 or state.tasks:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        each.connection_lost(None)
        await asyncio.gather(*state.tasks)
        return transport.written

    return seen, asyncio.run(run())


def h11_reads(stream: bytes) -> tuple[list[Seen], bool]:
    """Return the requests that h11 finds in a stream, and whether it found a fault.

    Line ends before a request line are skipped, as RFC 9112, section 2.2, advises; h11 skips none.
    """
    seen: list[Seen] = []
    while stream := stream.lstrip(b"\r\n"):
        oracle = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        oracle.receive_data(stream)
        request, body = None, b""
        while True:
            try:
                event = oracle.next_event()
            except h11.RemoteProtocolError:
                return seen, True
            if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                return seen, False
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                break
        assert request is not None
        headers = tuple((bytes(name), bytes(value)) for name, value in request.headers)
        target = bytes(request.target)
        seen.append(Seen(bytes(request.method), target.removesuffix(b"?"), headers, body))
        oracle.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        oracle.send(h11.EndOfMessage())
        if oracle.our_state is h11.MUST_CLOSE:
            break
        stream = oracle.trailing_data[0]
    return seen, False


names = st.sampled_from(["x-a", "X-B", "accept", "Range", "x-amz-date", "If-Match", "cookie"])
values = st.text(
    alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8
).map(str.encode)
paths = st.text(alphabet="abz09-._~%/2F", max_size=10).map(lambda text: b"/" + text.encode())
queries = st.sampled_from([b"", b"?x", b"?a=b&c=%2F", b"?list-type=2&prefix=a/b"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from([b"GET", b"PUT", b"POST", b"DELETE", b"HEAD", b"OPTIONS"]))
    lines = [b"%b %b%b HTTP/1.1" % (method, draw(paths), draw(queries)), b"Host: a:1"]
    for name in draw(st.lists(names, unique=True, max_size=3)):
        space = draw(st.sampled_from([b" ", b"", b"\t ", b"  "]))
        lines.append(
            b"%b:%b%b%b" % (name.encode(), space, draw(values), draw(st.sampled_from([b"", b" "])))
        )
    body = draw(st.binary(max_size=20))
    framing = draw(st.sampled_from(["none", "length", "chunked", "upgrade"]))
    if framing in ("length", "upgrade"):
        lines.append(b"Content-Length: %d" % len(body))
    if framing == "upgrade":
        lines += [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"]
    if framing == "chunked":
        lines.append(b"Transfer-Encoding: chunked")
        cut = draw(st.integers(0, len(body)))
        chunks = [part for part in (body[:cut], body[cut:]) if part]
        extension = draw(st.sampled_from([b"", b";a=b"]))
        encoded = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in chunks)
        trailer = draw(st.sampled_from([b"", b"x-trailer: v\r\n"]))
        body = encoded + b"0\r\n" + trailer + b"\r\n"
    if framing == "none":
        body = b""
    return b"\r\n".join([*lines, b"", b""]) + body


streams = st.lists(requests(), min_size=1, max_size=4).map(b"".join)


@hypothesis.given(streams)
def test_the_transport_reads_a_stream_as_h11_does(stream):
    expected, faulty = h11_reads(stream)
    assert not faulty
    seen, answers = transport_reads([stream])
    assert seen == expected
    assert answers.count(b"HTTP/1.1 200 OK") == len(seen)


@hypothesis.given(streams)
def test_what_is_no_request_is_answered_behind_all_requests_before_it(stream):
    expected, faulty = h11_reads(stream)
    assert not faulty
    seen, answers = transport_reads([stream + b"no request\r\n\r\n"])
    assert seen == expected
    *taken, last = answers.split(b"HTTP/1.1 ")[1:]
    assert [answer[:4] for answer in taken] == [b"200 "] * len(seen)
    assert last.startswith(b"400 ")


@examples.at_most(25)
@hypothesis.given(st.lists(requests(), min_size=1, max_size=2).map(b"".join))
def test_a_stream_means_the_same_wherever_it_is_split(stream):
    whole = transport_reads([stream])
    for cut in range(1, len(stream)):
        assert transport_reads([stream[:cut], stream[cut:]]) == whole
    assert transport_reads([stream[at : at + 1] for at in range(len(stream))]) == whole


PIECES = (b"\r", b"\n", b" ", b":", b"\0", b"9", b"\r\n", b"\xff", b",")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    stream = bytearray(draw(streams))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(stream) - 1))
        piece = draw(
            st.sampled_from([b"\r", b"\n", b" ", b":", b"\0", b"9", b"\r\n", b"\xff", b","])
        )
        match draw(st.sampled_from(["insert", "replace", "delete", "double"])):
            case "insert":
                stream[at:at] = piece
            case "replace":
                stream[at : at + 1] = piece
            case "delete":
                del stream[at]
            case "double":
                stream[at:at] = stream[at : at + 12]
    return bytes(stream)


def with_host(seen: Sequence[Seen]) -> list[Seen]:
    """The requests up to the first whose Host the application would refuse, and h11 does."""
    good = []
    for each in seen:
        if [name for name, _ in each.headers].count(b"host") != 1:
            break
        good.append(each)
    return good


@hypothesis.settings(max_examples=15)
@hypothesis.given(mutated())
def test_the_transport_takes_no_mutated_stream_otherwise_than_h11(stream):
    check_as_h11(stream)


@pytest.mark.long
@hypothesis.settings(max_examples=10_000)
@hypothesis.given(mutated())
def test_the_transport_takes_none_of_ten_thousand_streams_otherwise_than_h11(stream):
    check_as_h11(stream)


def check_as_h11(stream: bytes) -> None:
    hypothesis.assume(not LENIENT.search(stream))
    expected, _ = h11_reads(stream)
    seen = with_host(transport_reads([stream])[0])
    assert seen == expected[: len(seen)]


@pytest.mark.parametrize("stream", STRICTER.values(), ids=STRICTER.keys())
def test_the_transport_refuses_what_h11_still_takes(stream):
    assert len(h11_reads(stream)[0]) == 1
    seen, answers = transport_reads([stream])
    assert seen == []
    assert answers.startswith(b"HTTP/1.1 400 ")


@examples.at_most(300)
@hypothesis.given(mutated())
def test_a_mutated_stream_is_taken_byte_by_byte_as_at_once(stream):
    whole, answers = transport_reads([stream])
    apart, answers_apart = transport_reads([stream[at : at + 1] for at in range(len(stream))])
    # Bytes that are no request are answered behind all requests before them, in any pieces.
    assert (whole, answers) == (apart, answers_apart)
