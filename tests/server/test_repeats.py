"""Requests that come again byte for byte: parsed once, and checked each time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from urllib.parse import urlsplit

import pytest
import uvloop

from server import config, limits, repeats
from tests.kit import programs
from tests.server import requesting

HOST = "127.0.0.1:5253"
KEYS = {"access_key": "ROOTKEY", "secret_key": "root-secret"}
BEFORE = {"DateLessThan": {"aws:CurrentTime": "2025-11-21T16:10:00Z"}}
ALICE = config.User(
    name="alice",
    access_key="AKALICE",
    secret_key="alice's secret",
    policies=(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": BEFORE}
            ],
        },
    ),
)


class ClockedProgram:
    """A program on a clock that is set by hand, and which requests its faces identified."""

    def __init__(self, program, port, runner, clock):
        self.program = program
        self.port = port
        self.runner = runner
        self.clock = clock
        self.identified = []
        for face in program.application._entry._faces.values():
            self._count(face)

    def _count(self, face):
        identify = face.identify

        def counting(request):
            self.identified.append(request.raw_path)
            return identify(request)

        with contextlib.suppress(AttributeError):
            face.identify = counting

    def send(self, method, target, headers=(), body=b""):
        headers = {"host": HOST} | {name.lower(): value for name, value in dict(headers).items()}
        if body:
            headers["content-length"] = str(len(body))
        return self.runner.run(self.port.send(method, target, headers, body))

    def signed(self, method, target, body=b"", **more):
        prepared = requesting.signed(
            method, f"http://{HOST}{target}", body=body, at_ms=self.clock.now_ms, **KEYS, **more
        )
        return self.send(method, target, prepared.headers.items(), body)

    def url(self, target, method="GET", **keys):
        """Return the target of a presigned URL that holds for an hour."""
        prepared = requesting.signed(
            method,
            f"http://{HOST}{target}",
            at_ms=self.clock.now_ms,
            expires_seconds=3600,
            **(keys or KEYS),
        )
        parts = urlsplit(prepared.url)
        return f"{parts.path}?{parts.query}"

    def counted(self, method, target, headers=()):
        """Send a request; return its answer and how many requests were identified for it."""
        before = len(self.identified)
        answer = self.send(method, target, headers)
        return answer, len(self.identified) - before


@pytest.fixture
def clocked(tmp_path):
    clock = requesting.Clock()
    with (
        programs.opened(tmp_path / "data", now_ms=clock, users=(ALICE,)) as (program, settings),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        programs.answering(program, settings, runner) as port,
    ):
        clocked = ClockedProgram(program, port, runner, clock)
        assert clocked.signed("PUT", "/raw").status == 200
        assert clocked.signed("PUT", "/raw/k", b"first").status == 200
        yield clocked


def repeat(clocked, target, headers=()):
    """Send a request until it is remembered; return its last answer."""
    for _ in range(3):
        answer, count = clocked.counted("GET", target, headers)
        if count == 0:
            return answer
    raise AssertionError("the request is identified each time")


def test_a_presigned_request_is_parsed_once_and_answered_anew(clocked):
    url = clocked.url("/raw/k")
    first = repeat(clocked, url)
    second, count = clocked.counted("GET", url)
    assert (count, first.status, first.body, second.body) == (0, 200, b"first", b"first")
    assert first.headers["x-amz-request-id"] != second.headers["x-amz-request-id"]
    assert first.headers.keys() == second.headers.keys()
    clocked.signed("PUT", "/raw/k", b"second")
    assert clocked.counted("GET", url)[0].body == b"second"
    clocked.signed("DELETE", "/raw/k")
    gone, count = clocked.counted("GET", url)
    assert (count, gone.status) == (0, 404)
    assert b"<Code>NoSuchKey</Code>" in gone.body


def test_a_remembered_request_ends_when_its_url_does(clocked):
    url = clocked.url("/raw/k")
    repeat(clocked, url)
    clocked.clock.now_ms += 3600_000 - 1
    assert clocked.counted("GET", url)[0].status == 200
    clocked.clock.now_ms += 1
    refused = clocked.counted("GET", url)[0]
    assert refused.status == 403
    assert b"expired" in refused.body


def test_a_remembered_request_waits_for_a_time_that_was_set_back(clocked):
    url = clocked.url("/raw/k")
    repeat(clocked, url)
    clocked.clock.now_ms -= limits.CLOCK_SKEW_MS_MAX
    assert clocked.counted("GET", url)[0].status == 200
    clocked.clock.now_ms -= 1
    assert clocked.counted("GET", url)[0].status == 403


def test_a_remembered_request_ends_with_its_access_key(clocked):
    url = clocked.url("/raw/k")
    repeat(clocked, url)
    people = clocked.program.principals
    entry = people._by_access_key.pop("ROOTKEY")
    refused = clocked.counted("GET", url)[0]
    assert refused.status == 403
    assert b"<Code>InvalidAccessKeyId</Code>" in refused.body
    people._by_access_key["ROOTKEY"] = dataclasses.replace(entry, secret_key="another")
    refused = clocked.counted("GET", url)[0]
    assert b"<Code>SignatureDoesNotMatch</Code>" in refused.body


def test_the_rights_of_a_remembered_request_are_judged_each_time(clocked):
    url = clocked.url("/raw/k", access_key="AKALICE", secret_key="alice's secret")
    assert repeat(clocked, url).status == 200
    clocked.clock.now_ms += 10 * 60 * 1000
    refused, count = clocked.counted("GET", url)
    assert (count, refused.status) == (0, 403)
    assert b"<Code>AccessDenied</Code>" in refused.body


def test_a_token_is_remembered_with_its_request_until_it_ends(clocked):
    form = b"grant_type=client_credentials&client_id=ROOTKEY&client_secret=root-secret"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    issued = clocked.send("POST", "/iceberg/v1/oauth/tokens", headers, form)
    said = json.loads(issued.body)
    headers = {"authorization": f"Bearer {said['access_token']}"}
    assert repeat(clocked, "/iceberg/v1/lake/namespaces", headers).status == 200
    clocked.clock.now_ms += said["expires_in"] * 1000 - 1
    assert clocked.counted("GET", "/iceberg/v1/lake/namespaces", headers)[0].status == 200
    clocked.clock.now_ms += 1
    assert clocked.counted("GET", "/iceberg/v1/lake/namespaces", headers)[0].status == 401


def test_what_is_signed_anew_for_each_request_is_not_remembered(clocked):
    prepared = requesting.signed("GET", f"http://{HOST}/raw/k", at_ms=clocked.clock.now_ms, **KEYS)
    for _ in range(4):
        answer, count = clocked.counted("GET", "/raw/k", prepared.headers.items())
        assert (answer.status, count) == (200, 1)


def test_a_request_with_a_body_is_not_remembered(clocked):
    url = clocked.url("/raw/k")
    for _ in range(4):
        before = len(clocked.identified)
        assert clocked.send("GET", url, {"content-length": "3"}, b"abc").status == 200
        assert len(clocked.identified) == before + 1


@pytest.mark.parametrize("step", [1, 7, 1_000_000])
def test_a_stream_of_repeats_is_answered_alike_however_it_is_split(clocked, step):
    url = clocked.url("/raw/k")
    repeat(clocked, url)
    head = f"GET {url} HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()
    stream = head * 3

    async def talk():
        reader, writer = await asyncio.open_connection(*clocked.port._address)
        writer.write(head)
        bodies = [await answer_of(reader)]
        for at in range(0, len(stream), step):
            writer.write(stream[at : at + step])
            await asyncio.sleep(0)
        bodies += [await answer_of(reader) for _ in range(3)]
        writer.close()
        return bodies

    async def answer_of(reader):
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert answer.startswith(b"HTTP/1.1 200 ")
        return await reader.readexactly(5)

    assert clocked.runner.run(talk()) == [b"first"] * 4


def test_what_is_remembered_is_bounded_and_what_repeats_stays():
    remembered = repeats.Repeats(count_max=10)
    often = object()
    remembered.keep(b"often", often)
    for number in range(1000):
        remembered.keep(b"%d" % number, object())
        assert remembered.find(b"often") is often
        assert len(remembered._young) + len(remembered._old) <= 10
    assert remembered.find(b"0") is None


def test_one_path_means_what_the_rest_of_the_request_says(clocked):
    def get(method="GET", path="/raw/k", host=HOST, **headers):
        prepared = requesting.signed(
            method, f"http://{host}{path}", headers.items(), at_ms=clocked.clock.now_ms, **KEYS
        )
        answer = clocked.send(method, path, {**dict(prepared.headers.items()), "host": host})
        return answer.status, answer.body

    for _ in range(2):
        assert get() == (200, b"first")
        assert get(range="bytes=1-2") == (206, b"ir")
        assert get(path="/raw/k?tagging")[1].endswith(b"<TagSet></TagSet></Tagging>")
        assert get(method="HEAD") == (200, b"")
        assert get(path="/k", host="raw.localhost") == (200, b"first")
        assert get(path="/k")[0] == 404
        assert get(**{"if-none-match": "*"})[0] == 304
        assert get(**{"x-amz-expected-bucket-owner": "123456789012"})[0] == 403
    assert get(method="DELETE")[0] == 204
    assert get()[0] == 404
