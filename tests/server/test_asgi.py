"""Requests as they came, answers as they go."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path

import pytest

from server import asgi, errors, limits
from storage import disk, model
from storage import errors as storage_errors
from tests.server.requesting import receiving, request, run


class Connection:
    """Takes what is sent; disconnects after so many messages if told to."""

    def __init__(self) -> None:
        self.messages: list[dict] = []

    async def send(self, message) -> None:
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])


def send(response, *, method="GET", files=None, receive=None):
    connection = Connection()
    sent = request(method)
    sender = asgi.Sender(
        sent, receive or receiving(b""), connection.send, files=files or disk.Disk()
    )
    return connection, run(sender.send(response))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/", ()),
        ("/bucket", ("bucket",)),
        ("/bucket/", ("bucket", "")),
        ("/bucket//a", ("bucket", "", "a")),
        ("/a%2Fb/c", ("a/b", "c")),
        ("/a%252Fb", ("a%2Fb",)),
        ("/%E6%97%A5+x", ("日+x",)),
        ("/a/../b", ("a", "..", "b")),
        ("/日//x/", ("日", "", "x", "")),
    ],
)
def test_segments_are_split_first_and_decoded_once(target, expected):
    assert request(target=target).segments == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ()),
        ("a", (("a", ""),)),
        ("a=&b=1&a=2", (("a", ""), ("b", "1"), ("a", "2"))),
        ("k=a+b%2Bc", (("k", "a b+c"),)),
        ("k=a=b", (("k", "a=b"),)),
        ("&&a", (("a", ""),)),
    ],
)
def test_pairs_keep_order_blanks_and_repetitions(query, expected):
    assert request(target="/?" + query).pairs == expected


def test_parameter_is_the_first_of_its_name():
    sent = request(target="/?a=1&a=2")
    assert sent.parameter("a") == "1"
    assert sent.parameter("b") is None
    assert sent.parameter("b", "") == ""


@pytest.mark.parametrize("target", ["/b/%FF", "/?a=%FF", "/?%FF=a"])
def test_path_or_query_that_is_not_utf8_is_malformed(target):
    sent = request(target=target)
    with pytest.raises(errors.MalformedRequest):
        _ = (sent.segments, sent.pairs)


def test_too_many_parameters_are_refused():
    sent = request(target="/?" + "&".join(["a"] * (limits.QUERY_PAIRS_MAX + 1)))
    with pytest.raises(errors.RequestTooLarge):
        _ = sent.pairs


def test_headers_are_found_by_name_and_repetitions_joined():
    sent = request(headers=[("X-A", "1"), ("b", "é"), ("x-a", "2")])
    assert sent.headers.get("x-a") == "1,2"
    assert sent.headers.all("x-a") == ("1", "2")
    assert sent.headers.get("b") == "é"
    assert sent.headers.get("c") is None
    assert sent.headers.get("c", "d") == "d"
    assert "b" in sent.headers
    assert "c" not in sent.headers
    assert list(sent.headers.items()) == [("x-a", "1"), ("b", "é"), ("x-a", "2")]


class Counted(list):
    """Counts how often it is gone through."""

    rounds = 0

    def __iter__(self):
        self.rounds += 1
        return super().__iter__()


def test_repeated_headers_are_joined_in_few_rounds_however_many_there_are():
    raw = Counted([(b"x-%d" % number, b" %d " % number) for number in range(500)] * 2)
    headers = asgi.Headers(raw)
    assert headers.get("x-499") == "499,499"
    assert headers.get("x-0") == "0,0"
    assert len(headers.joined) == 500
    assert raw.rounds < 5


def test_origin_is_where_the_client_reached_us():
    sent = request(headers=[("host", "lake.example:8443")], scheme="https")
    assert sent.origin == "https://lake.example:8443"
    assert request().origin == "http://"


def test_read_keeps_the_body_for_later_calls():
    sent = request("PUT", body=[b"he", b"", b"llo"])

    async def twice():
        first = await sent.read(limit_bytes=5)
        again = [data async for data in sent.chunks()]
        return first, again, await sent.read(limit_bytes=10)

    assert run(twice()) == (b"hello", [b"hello"], b"hello")
    assert sent.received_bytes == 5
    assert sent.body_finished


def test_read_refuses_a_body_whose_announced_or_actual_size_exceeds_the_limit():
    with pytest.raises(errors.BodyTooLarge) as caught:
        run(request("PUT", headers=[("content-length", "6")]).read(limit_bytes=5))
    assert caught.value.limit_bytes == 5
    with pytest.raises(errors.BodyTooLarge):
        run(request("PUT", body=[b"hello", b"!"]).read(limit_bytes=5))


def test_read_again_with_a_smaller_limit_is_refused():
    sent = request("PUT", body=b"hello")

    async def twice():
        await sent.read(limit_bytes=5)
        await sent.read(limit_bytes=4)

    with pytest.raises(errors.BodyTooLarge):
        run(twice())


def test_client_that_disconnects_within_its_body_raises_its_own_error():
    sent = asgi.Request(
        {
            "type": "http", "method": "PUT", "path": "/", "raw_path": b"/", "query_string": b"",
            "headers": [], "scheme": "http", "client": None,
        },
        receiving([b"he"], then_disconnect=True),
        request_id="",
    )  # fmt: skip
    with pytest.raises(errors.ClientDisconnected):
        run(sent.read(limit_bytes=10))
    assert not sent.body_finished


@pytest.mark.parametrize("late", [b"", b"late"])
def test_client_that_stalls_within_its_body_raises_even_if_it_resumes(late):
    scope = {
        "type": "http", "method": "PUT", "path": "/", "raw_path": b"/", "query_string": b"",
        "headers": [], "scheme": "http", "client": None,
    }  # fmt: skip
    messages = receiving([b"he", late, b"llo"])
    sent = asgi.Request(scope, messages, request_id="")

    chunks = []

    async def read():
        async for data in sent.chunks():
            chunks.append(data)
            scope["extensions"] = {asgi.STALLED: {}}

    with pytest.raises(errors.BodyStalled):
        run(read())
    assert chunks == [b"he"]
    assert not sent.body_finished


@pytest.mark.parametrize("text", ["-1", "1e3", " 1", "²", "", "9" * 5000])
def test_content_length_must_be_a_whole_number(text):
    with pytest.raises(errors.MalformedRequest):
        _ = request(headers=[("content-length", text)]).content_length


def test_answer_has_its_length_and_its_headers():
    connection, sent = send(asgi.Response(200, (("x-a", "1"),), b"hello"))
    assert sent == 5
    assert connection.messages[0]["status"] == 200
    assert connection.headers == {b"x-a": b"1", b"content-length": b"5"}
    assert connection.body == b"hello"


def test_answer_to_head_has_the_length_without_the_body():
    connection, sent = send(asgi.Response(200, (), b"hello"), method="HEAD")
    assert (connection.headers, connection.body, sent) == ({b"content-length": b"5"}, b"", 0)
    connection, _ = send(asgi.Response(200, (("content-length", "77"),)), method="HEAD")
    assert connection.headers == {b"content-length": b"77"}


@pytest.mark.parametrize("status", [204, 304])
def test_answer_without_a_body_has_no_length(status):
    connection, _ = send(asgi.Response(status))
    assert connection.headers == {}
    assert connection.body == b""


def test_json_answer():
    assert asgi.json_response({"a": [1]}, 201, (("x-b", "c"),)) == asgi.Response(
        201, (("content-type", "application/json"), ("x-b", "c")), b'{"a":[1]}'
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-a", "a\r\nset-cookie: b"),
        ("x-a", "a\nb"),
        ("x-a", "a\0b"),
        ("x-a", "a\rb"),
        ("x-a", "a\x7fb"),
        ("x-a", "a\ud800b"),
        ("x-a: b\r\nx-c", "d"),
        ("x-a b", "c"),
        ("x-é", "a"),
        ("", "a"),
    ],
)
def test_header_that_would_end_the_header_is_refused_before_anything_is_sent(name, value):
    connection = Connection()
    sender = asgi.Sender(request(), receiving(b""), connection.send, files=disk.Disk())
    with pytest.raises(errors.MalformedRequest):
        run(sender.send(asgi.Response(200, ((name, value),))))
    assert connection.messages == []
    assert not sender.started


def test_header_bytes_come_back_as_they_were_sent():
    for raw in ("é", "\xa0x", "\xc3\xa9"):
        connection, _ = send(asgi.Response(200, (("x-a", raw),)))
        assert connection.headers[b"x-a"] == raw.encode("latin-1")
    connection, _ = send(asgi.Response(200, (("x-a", "日"),)))
    assert connection.headers[b"x-a"] == "日".encode()


class Watching(disk.Disk):
    """Counts open descriptors and calls."""

    def __init__(self) -> None:
        self.opened = 0
        self.held = 0
        self.reads: list[int] = []

    def open(self, path: Path) -> int:
        self.opened += 1
        self.held += 1
        return super().open(path)

    def read_at(self, descriptor: int, offset: int, count: int) -> bytes:
        self.reads.append(count)
        return super().read_at(descriptor, offset, count)

    def close(self, descriptor: int) -> None:
        self.held -= 1
        super().close(descriptor)


def slice_of(path, offset, length):
    return model.FileSlice(path=path, offset=offset, length=length)


def test_pieces_are_sent_in_order_from_memory_and_files(tmp_path):
    data = os.urandom(700_000)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(data)
    two.write_bytes(b"second file")
    files = Watching()
    body = (
        b"head ",
        slice_of(one, 0, 300_000),
        slice_of(one, 300_000, 400_000),
        b"",
        slice_of(two, 7, 4),
        b" tail",
    )
    connection, sent = send(asgi.Response(206, (), body), files=files)
    expected = b"head " + data + b"file tail"
    assert connection.body == expected
    assert connection.headers[b"content-length"] == str(len(expected)).encode()
    assert sent == len(expected)
    assert [m["more_body"] for m in connection.messages[1:]][-1] is False
    assert all(m["more_body"] for m in connection.messages[1:-1])
    assert files.opened == 2
    assert files.held == 0
    assert max(files.reads) == limits.READ_BYTES


def test_pieces_in_memory_are_sent_in_one_step_up_to_a_size():
    half = bytes(limits.WHOLE_BODY_BYTES_MAX // 2)
    whole = asgi.Response(200, (), (b"head ", half, b" tail"))
    assert whole.whole_body("GET") == (b"head ", half, b" tail")
    assert whole.whole_body("HEAD") == b""
    assert asgi.Response(200, (), (half, half)).whole_body("GET") == (half, half)
    assert asgi.Response(200, (), (half, half, b"x")).whole_body("GET") is None
    assert asgi.Response(200, (), (half,)).whole_body("GET") == half
    connection, sent = send(whole)
    assert connection.body == b"head " + half + b" tail"
    assert connection.headers[b"content-length"] == str(len(connection.body)).encode()
    assert sent == len(connection.body)
    assert len(connection.messages) == 2


@pytest.mark.parametrize("body", [(), (b"",)])
def test_no_pieces_are_an_empty_body(body):
    connection, sent = send(asgi.Response(200, (), body))
    assert (connection.body, sent) == (b"", 0)
    assert connection.messages[-1] == {"type": "http.response.body", "body": b""}


def test_head_opens_no_file(tmp_path):
    files = Watching()
    body = (slice_of(tmp_path / "absent", 0, 10),)
    connection, _ = send(asgi.Response(200, (), body), method="HEAD", files=files)
    assert connection.headers == {b"content-length": b"10"}
    assert files.opened == 0


def test_missing_file_is_found_before_anything_is_sent(tmp_path):
    connection = Connection()
    sender = asgi.Sender(request(), receiving(b""), connection.send, files=disk.Disk())
    with pytest.raises(FileNotFoundError):
        run(sender.send(asgi.Response(200, (), (slice_of(tmp_path / "absent", 0, 10),))))
    assert connection.messages == []
    assert not sender.started


def test_file_that_is_too_short_never_completes_the_answer(tmp_path):
    (tmp_path / "short").write_bytes(b"12345")
    files = Watching()
    connection = Connection()
    sender = asgi.Sender(request(), receiving(b""), connection.send, files=files)
    with pytest.raises(storage_errors.BodyMissing, match="short ends at 5, before 10"):
        run(sender.send(asgi.Response(200, (), (slice_of(tmp_path / "short", 0, 10),))))
    assert sender.started
    assert all(message.get("more_body", True) for message in connection.messages)
    assert files.held == 0


def test_others_get_their_turn_while_a_large_body_is_sent(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(4 * limits.READ_BYTES))
    turns = []

    async def both():
        connection = Connection()

        async def send_noting(message):
            turns.append("body")
            await connection.send(message)

        async def other():
            for _ in range(3):
                turns.append("other")
                await asyncio.sleep(0)

        sender = asgi.Sender(request(), forever(), send_noting, files=disk.Disk())
        task = asyncio.create_task(other())
        await sender.send(asgi.Response(200, (), (slice_of(path, 0, 4 * limits.READ_BYTES),)))
        await task

    run(both())
    first, last = turns.index("other"), len(turns) - turns[::-1].index("other")
    assert "body" in turns[first:last]


def forever():
    """A connection whose client stays."""

    async def receive():
        await asyncio.Event().wait()

    return receive


def test_client_that_leaves_ends_the_reading(tmp_path):
    size = 64 * limits.READ_BYTES
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(size)
    files = Watching()
    connection = Connection()

    async def leave_at_once():
        return {"type": "http.disconnect"}

    sender = asgi.Sender(request(), leave_at_once, connection.send, files=files)
    with pytest.raises(errors.ClientDisconnected):
        run(sender.send(asgi.Response(200, (), (slice_of(path, 0, size),))))
    assert len(files.reads) < 8
    assert files.held == 0


def test_slices_are_values():
    piece = slice_of(Path("x"), 1, 2)
    assert dataclasses.replace(piece, offset=3).offset == 3
    assert asgi.size_of((b"abc", piece)) == 5
    assert asgi.size_of(b"abcd") == 4
