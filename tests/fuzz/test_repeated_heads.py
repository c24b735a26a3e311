"""Heads that look like remembered ones: a server that remembers answers as one that does not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import re
import zlib

import hypothesis
import pytest
import uvicorn
from hypothesis import strategies as st

from server.transport import connection
from tests.fuzz.test_transport import Transport
from tests.kit import examples, waits
from tests.server import clocked as clocking
from tests.server import requesting, test_templates
from tests.server.clocked import KEYS

SDK = [
    ("amz-sdk-invocation-id", test_templates.UUID),
    ("x-amz-checksum-mode", "ENABLED"),
    ("amz-sdk-request", "attempt=1"),
]
FORMS = ((), SDK, [("Range", "bytes=1-2")], [*SDK, ("Range", "bytes=0-3")])
TOKENS = (
    b"\r\n", b"\n", b"\r", b"\r\n ", b"\r\n\r\n", b" ", b"\t", b":", b",", b";", b"=", b"-", b"\0",
    b"%", b"\xff", b"X-Amz-Date: 20251121T160000Z\r\n", b"Date: Fri, 21 Nov 2025 16:00:00 GMT\r\n",
    b"Range: bytes=0-0\r\n", b"Content-Length: 0\r\n", b"Content-Length: 3\r\n\r\nabc",
    b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n",
    b"X-Amz-Meta-A: b\r\n", b"?tagging", b"Signature=", b"GET /raw/k HTTP/1.1\r\n", b"/", b"//",
    b"..", b"k", b"?", b"#", b"?x-id=GetObject", b" HTTP/1.1\r\n", b"%6B", b"%3D", b"%3d",
    b"+", b"/raw/", b"&", b"X-Amz-Date=20251121T160000Z", b"&X-Amz-Signature=", b"X-Amz-Expires=1",
)  # fmt: skip
NAMES = ("k", "l", "folder/other_1.txt", "dt%3D1/a%20b")
CHANGING = re.compile(rb"[0-9a-f]{32}|date: [^\r]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
"""Ids of requests, and times."""


class Pair:
    """Connections of one program that remembers heads, and of the same one that does not."""

    def __init__(self, clocked):
        self.run = clocked.runner.run
        self.listening = uvicorn.Config(
            clocked.program.application,
            http=connection.Connection,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            log_config=None,
        )
        self.state = uvicorn.server.ServerState()
        self.heads = {}
        self.posts = []
        self.puts = []
        self.signed = clocked.signed

    def stored(self):
        """Return the keys and ETags of all objects."""
        listing = self.signed("GET", "/raw?list-type=2").body
        return re.findall(rb"<(?:Key|ETag)>[^<]*", listing)

    async def ask(self, pieces, *, remembers):
        """Return what a connection answers to pieces after a first request, and if it closes."""
        served = connection.Connection(self.listening, self.state, {})
        if not remembers:
            served._recall = lambda _: None
        transport = Transport()
        served.connection_made(transport)
        served.data_received(self.heads[()][0])
        assert transport.written.startswith(b"HTTP/1.1 200 ")
        transport.written = b""
        for piece in pieces:
            served.data_received(piece)
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        await waits.until(lambda: _waits_for_its_client(served))
        answers, closing = transport.written, transport.closing
        served.connection_lost(None)
        return CHANGING.sub(b"", answers), closing


def _waits_for_its_client(served):
    """Whether all that has come is answered, but for a request whose body is not complete."""
    answering = served._answering
    return answering is None or (answering is served.newest and not answering.request_complete)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with clocking.started(tmp_path_factory.mktemp("heads") / "data") as clocked:
        for name in NAMES:
            assert clocked.signed("PUT", f"/raw/{name}", b"of " + name.encode()).status == 200
        pair = Pair(clocked)
        for form in FORMS:
            pair.heads[tuple(form)] = [
                test_templates.head_of(
                    form, f"/raw/{name}", at_ms=clocked.clock.now_ms + second * 1000, **KEYS
                )
                for second in range(3)
                for name in NAMES
            ]
        for heads in pair.heads.values():
            for head in heads:
                for _ in range(2):
                    pair.run(pair.ask([head], remembers=True))
                assert clocked.program.application.recall(head) is not None
        form = b"grant_type=client_credentials&client_id=ROOTKEY&client_secret=root-secret"
        headers = {"content-type": "application/x-www-form-urlencoded"}
        issued = clocked.send("POST", "/iceberg/v1/oauth/tokens", headers, form)
        token = json.loads(issued.body)["access_token"]
        # A refusal that no thread is asked for, and that says what the body says.
        bodies = [
            b'{"identifier":{"namespace":["ns"],"name":"%b"},"requirements":[],"updates":[]}' % name
            for name in (b"a", b"b", b"longer")
        ]
        pair.posts = [
            b"POST /iceberg/v1/lake/namespaces/ns/tables/t HTTP/1.1\r\nHost: a\r\n"
            b"Authorization: Bearer %b\r\n%bContent-Length: %d\r\n\r\n%b"
            % (token.encode(), more, len(body), body)
            for more in (b"", b"X-Client: spark\r\n")
            for body in bodies
        ]
        for post in pair.posts:
            for _ in range(3):
                answer, _ = pair.run(pair.ask([post], remembers=True))
                assert answer.startswith(b"HTTP/1.1 400 ")
            head = post.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            assert clocked.program.application.recall(head) is not None
        pair.puts = [
            request
            for more in ((), SDK, [("If-None-Match", "*")])
            for length in (3, 20, 80)
            for name in NAMES
            if (request := put_of(clocked, name, b"\r\n\r\na" * length, more))
        ]
        pair.puts += [
            url_of(clocked, method, name, second, b"a\r\n\r\nb" * length)
            for method, length in (("PUT", 3), ("PUT", 20), ("GET", 0))
            for second in range(3)
            for name in NAMES
        ]
        for put in pair.puts:
            for _ in range(3):
                pair.run(pair.ask([put], remembers=True))
            head = put.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            assert clocked.program.application.recall(head) is not None
        yield pair


def put_of(clocked, name, body, more):
    """Return a PUT with the digests of its body."""
    url = f"http://{clocking.HOST}/raw/{name}"
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    headers = [*more, ("content-md5", digest), ("x-amz-checksum-crc32", crc)]
    prepared = requesting.signed("PUT", url, headers, body, at_ms=clocked.clock.now_ms, **KEYS)
    lines = [f"{name}: {value}\r\n" for name, value in prepared.headers.items()]
    return (
        f"PUT /raw/{name} HTTP/1.1\r\nhost: {clocking.HOST}\r\n{''.join(lines)}\r\n".encode() + body
    )


def url_of(clocked, method, name, second, body):
    """Return a request with a presigned URL of its own second."""
    target = f"http://{clocking.HOST}/raw/{name}"
    at_ms = clocked.clock.now_ms + second * 1000
    prepared = requesting.signed(method, target, at_ms=at_ms, expires_seconds=3600, **KEYS)
    path = prepared.url.partition(clocking.HOST)[2]
    length = f"content-length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nhost: {clocking.HOST}\r\n{length}\r\n".encode() + body


@st.composite
def mutations(draw):
    """Return a function of bytes that changes some of them."""

    def place(head):
        return draw(st.integers(0, len(head) - 1))

    def line_of(lines, last):
        # Another change may have joined the few lines of a presigned URL's head.
        return draw(st.integers(1, max(1, len(lines) - last)))

    def overwrite(head):
        at = place(head)
        return head[:at] + draw(st.binary(min_size=1, max_size=1)) + head[at + 1 :]

    def insert(head):
        at = place(head)
        return head[:at] + draw(st.sampled_from(TOKENS)) + head[at:]

    def insert_line(head):
        lines = head.split(b"\r\n")
        at = line_of(lines, last=2)
        return b"\r\n".join([*lines[:at], draw(st.sampled_from(TOKENS)).strip(), *lines[at:]])

    def replace(head):
        token = draw(st.sampled_from(TOKENS))
        at = place(head)
        return head[:at] + token + head[at + len(token) :]

    def remove(head):
        at = place(head)
        return head[:at] + head[at + draw(st.integers(1, 80)) :]

    def double(head):
        lines = head.split(b"\r\n")
        at = line_of(lines, last=3)
        return b"\r\n".join([*lines[: at + 1], *lines[at:]])

    def swap(head):
        lines = head.split(b"\r\n")
        one, two = (line_of(lines, last=3) for _ in range(2))
        if max(one, two) < len(lines):
            lines[one], lines[two] = lines[two], lines[one]
        return b"\r\n".join(lines)

    def recase(head):
        at = place(head)
        return head[:at] + head[at : at + 20].swapcase() + head[at + 20 :]

    chosen = (overwrite, insert, insert_line, replace, remove, double, swap, recase)
    return draw(st.sampled_from(chosen))


def mutated(data, request):
    """Return a request with at most two changes."""
    for _ in range(data.draw(st.integers(0, 2))):
        if len(request) > 40:
            request = data.draw(mutations())(request)
    return request


@hypothesis.given(data=st.data())
@examples.at_most(100)
def test_a_mutated_head_is_answered_alike_with_and_without_the_table(pair, data):
    heads = [head for form in pair.heads.values() for head in form]
    stream = b""
    for _ in range(data.draw(st.integers(1, 2))):
        head = data.draw(st.sampled_from(heads))
        stream += mutated(data, head)
    cut = data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))
    pieces = [piece for piece in (stream[:cut], stream[cut:]) if piece]
    plain = pair.run(pair.ask(pieces, remembers=False))
    assert pair.run(pair.ask(pieces, remembers=True)) == plain


@hypothesis.given(data=st.data())
@examples.at_most(100)
def test_a_head_with_values_of_others_is_answered_alike_with_and_without_the_table(pair, data):
    """The values that differ come from other heads, or are any bytes of their length."""
    heads = data.draw(st.sampled_from([*pair.heads.values()]))
    head = data.draw(st.sampled_from(heads))
    template = test_templates.template_of(head)
    for (start, stop), part in zip(template.spans, template.parts(head), strict=True):
        size = stop - start
        other = data.draw(st.sampled_from(heads))[start:stop]
        near = part[:-1] + data.draw(st.sampled_from([b"\r", b"\n", b" ", b"0", b"Z", b","]))
        value = data.draw(
            st.one_of(
                st.just(part),
                st.just(other),
                st.just(near),
                st.binary(min_size=size, max_size=size),
            )
        )
        head = head[:start] + value + head[stop:]
    plain = pair.run(pair.ask([head], remembers=False))
    assert pair.run(pair.ask([head], remembers=True)) == plain


@hypothesis.given(data=st.data())
@examples.at_most(100)
def test_a_mutated_put_is_answered_and_stored_alike_with_and_without_the_table(pair, data):
    stream = b""
    for _ in range(data.draw(st.integers(1, 3))):
        put = data.draw(st.sampled_from(pair.puts))
        if data.draw(st.booleans()):  # the body, or a header about it, is another one's
            other = data.draw(st.sampled_from(pair.puts))
            put = data.draw(st.sampled_from([with_body_of, with_header_of]))(put, other, data)
        stream += mutated(data, put)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    pieces = [stream[a:b] for a, b in itertools.pairwise([0, *cuts, len(stream)]) if a < b]
    # A stream may read what it writes later; so each of the two finds what the stream itself left.
    pair.run(pair.ask(pieces, remembers=False))
    plain = pair.run(pair.ask(pieces, remembers=False)), pair.stored()
    assert (pair.run(pair.ask(pieces, remembers=True)), pair.stored()) == plain


def with_body_of(put, other, _):
    return put.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + other.partition(b"\r\n\r\n")[2]


def with_header_of(put, other, data):
    """Return a PUT with the value that another one has in one of its headers."""
    lines = put.split(b"\r\n")
    at = data.draw(st.integers(1, lines.index(b"") - 1))
    name = lines[at].partition(b":")[0]
    for line in other.split(b"\r\n"):
        if line.startswith(name + b":"):
            lines[at] = line
    return b"\r\n".join(lines)


@hypothesis.given(data=st.data())
@examples.at_most(100)
def test_a_mutated_post_is_answered_alike_with_and_without_the_table(pair, data):
    stream = b""
    for _ in range(data.draw(st.integers(1, 3))):
        stream += mutated(data, data.draw(st.sampled_from(pair.posts)))
    cut = data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))
    pieces = [piece for piece in (stream[:cut], stream[cut:]) if piece]
    plain = pair.run(pair.ask(pieces, remembers=False))
    assert pair.run(pair.ask(pieces, remembers=True)) == plain
