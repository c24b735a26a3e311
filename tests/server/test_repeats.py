"""Requests that come again byte for byte: parsed once, and checked each time."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gc
import hashlib
import json
import re
import urllib.parse

import pytest

from server import asgi, config, limits, repeats
from tests.kit import waits
from tests.server import clocked as clocking
from tests.server import requesting
from tests.server.clocked import HOST, KEYS

NAMESPACES = "/iceberg/v1/lake/namespaces"
BEFORE = {"DateLessThan": {"aws:CurrentTime": "2025-11-21T16:10:00Z"}}
ALICE = config.User(
    name="alice",
    access_key="AKALICE",
    secret_key="alice's secret",
    policies=(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": ["s3:*", "s3tables:*"],
                    "Resource": "*",
                    "Condition": BEFORE,
                }
            ],
        },
    ),
)


@pytest.fixture
def clocked(tmp_path):
    with clocking.started(tmp_path / "data", users=(ALICE,)) as clocked:
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


def test_a_remembered_refusal_keeps_no_request_in_memory(clocked):
    def requests_kept():
        gc.collect()
        return sum(isinstance(each, asgi.Request) for each in gc.get_objects())

    before = requests_kept()
    for number in range(20):
        url = clocked.url(f"/raw/k?partNumber=0&x={number}")
        for _ in range(3):
            answer, count = clocked.counted("GET", url)
            assert (answer.status, b"<Code>InvalidArgument</Code>" in answer.body) == (400, True)
        assert count == 0
    assert requests_kept() == before


def token_of(clocked, access_key="ROOTKEY", secret_key="root-secret"):
    """The headers of requests with a new token, and for how many seconds it holds."""
    form = urllib.parse.urlencode(
        {
            "grant_type": "client_credentials",
            "client_id": access_key,
            "client_secret": secret_key,
        }
    )
    headers = {"content-type": "application/x-www-form-urlencoded"}
    issued = clocked.send("POST", "/iceberg/v1/oauth/tokens", headers, form.encode())
    said = json.loads(issued.body)
    return {"authorization": f"Bearer {said['access_token']}"}, said["expires_in"]


def make_namespace(clocked, name, headers):
    """Create a namespace; return the answer, and how many requests were identified for it."""
    before = len(clocked.identified)
    body = json.dumps({"namespace": [name]}).encode()
    answer = clocked.send("POST", NAMESPACES, headers, body)
    return answer, len(clocked.identified) - before


def namespaces_of(clocked):
    headers, _ = token_of(clocked)
    answer = clocked.send("GET", NAMESPACES, headers)
    return [name for (name,) in json.loads(answer.body)["namespaces"]]


def test_the_head_of_a_post_is_parsed_once_for_all_bodies_of_its_length(clocked):
    headers, _ = token_of(clocked)
    names = [f"n{number}" for number in range(6)]
    counts = []
    for name in names:
        answer, count = make_namespace(clocked, name, headers)
        assert (answer.status, json.loads(answer.body)["namespace"]) == (200, [name])
        counts.append(count)
    assert counts == [1, 1, 0, 0, 0, 0]
    again, count = make_namespace(clocked, "n5", headers)
    assert (again.status, count) == (409, 0)
    longer, count = make_namespace(clocked, "n_longer", headers)
    assert (longer.status, count) == (200, 1)
    assert namespaces_of(clocked) == [*names, "n_longer"]


def test_a_remembered_post_ends_with_its_token(clocked):
    headers, seconds = token_of(clocked)
    for name in ("n0", "n1", "n2"):
        _, count = make_namespace(clocked, name, headers)
    assert count == 0
    clocked.clock.now_ms += seconds * 1000 - 1
    assert make_namespace(clocked, "n3", headers)[0].status == 200
    clocked.clock.now_ms += 1
    assert make_namespace(clocked, "n4", headers)[0].status == 401
    assert namespaces_of(clocked) == ["n0", "n1", "n2", "n3"]


def test_the_rights_of_a_remembered_post_are_judged_each_time(clocked):
    headers, _ = token_of(clocked, "AKALICE", "alice's secret")
    for name in ("n0", "n1", "n2"):
        answer, count = make_namespace(clocked, name, headers)
        assert answer.status == 200
    assert count == 0
    clocked.clock.now_ms += 10 * 60 * 1000
    refused, count = make_namespace(clocked, "n3", headers)
    assert (count, refused.status) == (0, 403)
    assert namespaces_of(clocked) == ["n0", "n1", "n2"]


def test_posts_with_heads_of_their_own_drive_no_other_out(clocked):
    headers, _ = token_of(clocked)
    assert repeat(clocked, NAMESPACES, headers).status == 200
    remembered = len(clocked.program.application._entry._repeats._same)
    for number in range(30):
        own = {**headers, "idempotency-key": f"00000000-0000-7000-8000-{number:012}"}
        answer, count = make_namespace(clocked, f"n{number:02}", own)
        assert (answer.status, count) == (200, 1)
    assert len(clocked.program.application._entry._repeats._same) == remembered
    assert clocked.counted("GET", NAMESPACES, headers)[1] == 0


def test_a_post_that_is_signed_in_its_header_is_identified_each_time(clocked):
    body = b"<Delete><Object><Key>absent</Key></Object></Delete>"
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    for _ in range(4):
        before = len(clocked.identified)
        more = {"headers": [("content-md5", digest)]}
        assert clocked.signed("POST", "/raw?delete", body, **more).status == 200
        assert len(clocked.identified) == before + 1


@pytest.mark.parametrize("step", [1, 7, 100, 1_000_000])
def test_a_stream_of_posts_is_answered_alike_however_it_is_split(clocked, step):
    headers, _ = token_of(clocked)
    names = [f"s{number}" for number in range(6)]

    def request(name):
        body = json.dumps({"namespace": [name]})
        return (
            f"POST {NAMESPACES} HTTP/1.1\r\nhost: {HOST}\r\n"
            f"authorization: {headers['authorization']}\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()

    async def talk():
        reader, writer = await asyncio.open_connection(*clocked.port._address)
        created = []
        for name in names[:3]:
            writer.write(request(name))
            created.append(await name_in_answer(reader))
        stream = b"".join(map(request, names[3:]))
        for at in range(0, len(stream), step):
            writer.write(stream[at : at + step])
            await asyncio.sleep(0)
        created += [await name_in_answer(reader) for _ in names[3:]]
        writer.close()
        return created

    async def name_in_answer(reader):
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = int(re.search(rb"content-length: ([0-9]+)", head)[1])
        (name,) = json.loads(await reader.readexactly(length))["namespace"]
        return name

    assert clocked.runner.run(talk()) == names
    assert namespaces_of(clocked) == names


def test_a_token_is_remembered_with_its_request_until_it_ends(clocked):
    headers, seconds = token_of(clocked)
    assert repeat(clocked, NAMESPACES, headers).status == 200
    clocked.clock.now_ms += seconds * 1000 - 1
    assert clocked.counted("GET", NAMESPACES, headers)[0].status == 200
    clocked.clock.now_ms += 1
    assert clocked.counted("GET", NAMESPACES, headers)[0].status == 401


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
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), waits.WAIT_SECONDS)
        assert answer.startswith(b"HTTP/1.1 200 ")
        return await reader.readexactly(5)

    assert clocked.runner.run(talk()) == [b"first"] * 4


def test_what_is_remembered_is_bounded_and_what_repeats_stays():
    remembered = repeats.Repeats(asgi.LateHeaders, count_max=10)
    often = object()
    remembered.keep(b"often", often)
    for number in range(1000):
        remembered.keep(b"%d" % number, object())
        assert remembered.find(b"often") is often
        assert len(remembered._same) <= 10
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
