"""PUTs of objects and presigned URLs whose heads come again with another key, body or signature:
identified once, and verified, judged and answered each for itself."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import json
import re
import urllib.parse
import zlib
from xml.etree import ElementTree

import pytest

from server import limits
from server.auth import verify
from tests.kit import waits
from tests.server import clocked as clocking
from tests.server import requesting, test_resigned
from tests.server.clocked import HOST, KEYS

BODIES = [bytes([65 + number]) * 20 for number in range(8)]
SDK = {"User-Agent": "Boto3/1.43.0", "amz-sdk-request": "attempt=1"}
LATER = {"Expect": "100-continue", **SDK}
NOT_ALLOWED = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:PutObject",
    "Resource": "arn:aws:s3:::raw/denied",
}


@pytest.fixture
def clocked(tmp_path):
    with clocking.started(tmp_path / "data", users=(test_resigned.ALICE,)) as clocked:
        yield clocked


def base64_of(raw):
    return base64.b64encode(raw).decode()


def digests_of(body):
    """Return headers with every digest that a client may send for a body."""
    return {
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "Content-MD5": base64_of(hashlib.md5(body).digest()),
        "x-amz-checksum-crc32": base64_of(zlib.crc32(body).to_bytes(4, "big")),
        "x-amz-sdk-checksum-algorithm": "CRC32",
    }


def prepare(clocked, target, body, headers=(), **keys):
    """Return the headers of a PUT that is signed a second later than the one before."""
    clocked.clock.now_ms += 1000
    prepared = requesting.signed(
        "PUT",
        f"http://{HOST}{target}",
        dict(headers).items(),
        body,
        at_ms=clocked.clock.now_ms,
        **{**KEYS, **keys},
    )
    return {name.lower(): value for name, value in prepared.headers.items()}


def send(clocked, target, body, headers):
    """Send a PUT; return its answer and how many requests were identified for it."""
    before = len(clocked.identified)
    answer = clocked.send("PUT", target, headers, body)
    return answer, len(clocked.identified) - before


def put(clocked, target, body, headers=(), **keys):
    return send(clocked, target, body, prepare(clocked, target, body, headers, **keys))


def learn(clocked, headers_of=lambda _: SDK, **keys):
    """Send PUTs of 20 bytes until the head of the next one is remembered."""
    for number, body in enumerate(BODIES):
        target = f"/raw/learnt-{number}"
        if put(clocked, target, body, headers_of(body), **keys)[1] == 0:
            return
    raise AssertionError("each PUT is identified")


def read(clocked, target):
    return clocked.signed("GET", target).body


def put_policy(clocked, statement):
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
    assert clocked.signed("PUT", "/raw?policy", policy).status == 204


def code_of(answer):
    return answer.status, ElementTree.fromstring(answer.body).findtext("Code")


def head_of(clocked, target, body, headers=(), **keys):
    """Return the bytes of a head, with the length of the body."""
    prepared = prepare(clocked, target, body, headers, **keys)
    lines = [f"{name}: {value}\r\n" for name, value in prepared.items()]
    length = f"content-length: {len(body)}\r\n" if "content-length: " not in "".join(lines) else ""
    return f"PUT {target} HTTP/1.1\r\nhost: {HOST}\r\n{length}{''.join(lines)}\r\n".encode()


async def answer_of(reader):
    """Return the status and the head of the next answer."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), waits.WAIT_SECONDS)
    length = re.search(rb"content-length: ([0-9]+)", head)
    if length is not None:
        await reader.readexactly(int(length[1]))
    return int(head[9:12]), head


@pytest.mark.parametrize("has_digests", [False, True])
def test_a_put_of_another_key_and_body_is_not_identified(clocked, has_digests):
    def headers_of(body):
        more = digests_of(body) if has_digests else {}
        return {**SDK, "Content-Type": "text/x-a", "x-amz-meta-a": "b", **more}

    learn(clocked, headers_of)
    for number, body in enumerate(BODIES):
        for target in (f"/raw/folder/{number}", "/raw/dt%3D1/a%20b", "/raw/k"):
            answer, count = put(clocked, target, body, headers_of(body))
            assert (answer.status, count) == (200, 0)
            assert answer.headers["etag"] == f'"{hashlib.md5(body).hexdigest()}"'
            stored = clocked.signed("GET", target)
            assert stored.body == body
            assert stored.headers["content-type"] == "text/x-a"
            assert stored.headers["x-amz-meta-a"] == "b"
            crc = base64_of(zlib.crc32(body).to_bytes(4, "big")) if has_digests else None
            assert answer.headers.get("x-amz-checksum-crc32") == crc


def test_a_body_of_another_length_is_stored_whole(clocked):
    learn(clocked)
    for size_bytes in (99, 10, 57, 1, 0, 9, 100, 4096, 9999, 10_000, 300_000):
        for _ in range(3):
            body = b"x" * size_bytes
            answer, _ = put(clocked, "/raw/k", body, SDK)
            assert answer.status == 200
            assert read(clocked, "/raw/k") == body
    assert put(clocked, "/raw/k", b"y" * 3000, SDK)[1] == 0


def test_a_body_that_ends_as_a_head_does_is_not_part_of_the_head(clocked):
    learn(clocked)
    body = b"\r\n\r\n".join([b"a" * 16, b""])
    answer, count = put(clocked, "/raw/lines", body, SDK)
    assert (answer.status, count) == (200, 0)
    assert read(clocked, "/raw/lines") == body


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x-amz-content-sha256", "XAmzContentSHA256Mismatch"),
        ("Content-MD5", "BadDigest"),
        ("x-amz-checksum-crc32", "BadDigest"),
    ],
)
def test_a_digest_of_another_body_is_refused_and_nothing_is_stored(clocked, name, code):
    learn(clocked, lambda body: {**SDK, **digests_of(body)})
    sent = {**SDK, **digests_of(BODIES[0]), name: digests_of(BODIES[1])[name]}
    if name == "x-amz-content-sha256":  # botocore computes it, and signs what it computed
        answer, count = send(
            clocked, "/raw/k", BODIES[0], prepare(clocked, "/raw/k", BODIES[1], sent)
        )
    else:
        answer, count = put(clocked, "/raw/k", BODIES[0], sent)
    assert (*code_of(answer), count) == (400, code, 0)
    assert read(clocked, "/raw/k") == b"first"


@pytest.mark.parametrize("spoil", ["x-amz-content-sha256", "authorization", "x-amz-date"])
def test_a_value_that_was_not_signed_is_refused(clocked, spoil):
    learn(clocked, lambda body: {**SDK, **digests_of(body)})
    headers = prepare(clocked, "/raw/k", BODIES[0], {**SDK, **digests_of(BODIES[0])})
    other = prepare(clocked, "/raw/k", BODIES[1], {**SDK, **digests_of(BODIES[1])})
    answer, _ = send(clocked, "/raw/k", BODIES[0], {**headers, spoil: other[spoil]})
    assert code_of(answer) == (403, "SignatureDoesNotMatch")
    assert read(clocked, "/raw/k") == b"first"
    assert send(clocked, "/raw/k", BODIES[0], headers)[0].status == 200


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("content-md5", "%%%%", (400, "InvalidDigest")),
        ("content-md5", "=" * 24, (400, "InvalidDigest")),
        ("x-amz-checksum-crc32", "A=A=A=A=", (400, "BadDigest")),
        ("x-amz-content-sha256", "g" * 64, (403, "SignatureDoesNotMatch")),
    ],
)
def test_a_malformed_digest_is_refused_as_in_a_first_request(clocked, name, value, expected):
    def refused():
        sent = {**SDK, **digests_of(BODIES[0])}
        sent.pop("Content-MD5" if name == "content-md5" else name)
        if name == "x-amz-content-sha256":
            headers = prepare(clocked, "/raw/k", BODIES[0], sent) | {name: value}
            return send(clocked, "/raw/k", BODIES[0], headers)[0]
        return put(clocked, "/raw/k", BODIES[0], {**sent, name: value})[0]

    first = refused()
    learn(clocked, lambda body: {**SDK, **digests_of(body)})
    again = refused()
    assert code_of(first) == code_of(again) == expected
    assert read(clocked, "/raw/k") == b"first"


@pytest.mark.parametrize("place", ["header", "query"])
def test_a_body_has_the_decoded_length_that_its_head_says(clocked, place):
    name = "x-amz-decoded-content-length"
    query = f"?{name}=20" if place == "query" else ""
    headers = {**SDK, name: "20"} if place == "header" else SDK
    for number, body in enumerate(BODIES):
        assert put(clocked, f"/raw/{number}{query}", body, headers)[0].status == 200
    refused, _ = put(clocked, f"/raw/k{query}", b"x" * 15, headers)
    assert code_of(refused) == (400, "IncompleteBody")
    assert read(clocked, "/raw/k") == b"first"


@pytest.mark.parametrize("is_presigned", [False, True])
def test_a_digest_in_the_query_is_the_one_in_the_header(clocked, is_presigned):
    name = "x-amz-checksum-crc32"
    query = f"?{name}={urllib.parse.quote(digests_of(BODIES[0])[name], safe='')}"

    def sent(target, body):
        headers = {name: digests_of(body)[name]}
        if not is_presigned:
            return put(clocked, f"{target}{query}", body, {**SDK, **headers})[0]
        clocked.clock.now_ms += 1000
        prepared = requesting.signed(
            "PUT",
            f"http://{HOST}{target}{query}",
            headers.items(),
            at_ms=clocked.clock.now_ms,
            expires_seconds=3600,
            **KEYS,
        )
        return clocked.send("PUT", prepared.url.partition(HOST)[2], headers, body)

    for number in range(8):
        assert sent(f"/raw/{number}", BODIES[0]).status == 200
    assert code_of(sent("/raw/k", BODIES[1])) == (400, "InvalidRequest")
    assert read(clocked, "/raw/k") == b"first"


def test_a_condition_on_the_object_holds_for_each_key(clocked):
    learn(clocked, lambda _: {**SDK, "If-None-Match": "*"})
    answer, count = put(clocked, "/raw/new", BODIES[0], {**SDK, "If-None-Match": "*"})
    assert (answer.status, count) == (200, 0)
    answer, count = put(clocked, "/raw/new", BODIES[1], {**SDK, "If-None-Match": "*"})
    assert (*code_of(answer), count) == (412, "PreconditionFailed", 0)
    assert read(clocked, "/raw/new") == BODIES[0]


def test_rights_are_judged_for_each_key_and_after_each_change(clocked):
    learn(clocked, **test_resigned.ALICES)
    put_policy(clocked, NOT_ALLOWED)
    denied, count = put(clocked, "/raw/denied", BODIES[0], SDK, **test_resigned.ALICES)
    assert (*code_of(denied), count) == (403, "AccessDenied", 0)
    answer, count = put(clocked, "/raw/other", BODIES[0], SDK, **test_resigned.ALICES)
    assert (answer.status, count) == (200, 0)
    assert clocked.signed("DELETE", "/raw?policy").status == 204
    answer, count = put(clocked, "/raw/denied", BODIES[0], SDK, **test_resigned.ALICES)
    assert (answer.status, count) == (200, 0)


@pytest.mark.parametrize("is_presigned", [False, True])
def test_a_put_is_remembered_again_after_its_entry_was_replaced(clocked, is_presigned):
    """Any change of users gives every stored user a new entry."""

    def count():
        if is_presigned:
            return send_url(clocked, url_of(clocked, "/raw/k"), BODIES[0])[1]
        return put(clocked, "/raw/k", BODIES[0], SDK)[1]

    (learn_urls if is_presigned else learn)(clocked)
    for _ in range(8):
        assert count() == 0
        people = clocked.program.principals
        people._by_access_key["ROOTKEY"] = dataclasses.replace(people._by_access_key["ROOTKEY"])
        assert count() == 1


def test_each_put_has_its_own_version(clocked):
    learn(clocked)
    enabled = (
        b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        b"<Status>Enabled</Status></VersioningConfiguration>"
    )
    assert clocked.signed("PUT", "/raw?versioning", enabled).status == 200
    versions = [put(clocked, "/raw/k", body, SDK)[0].headers["x-amz-version-id"] for body in BODIES]
    for version, body in zip(versions, BODIES, strict=True):
        assert read(clocked, f"/raw/k?versionId={version}") == body


def test_another_header_or_query_is_another_head(clocked):
    learn(clocked)
    answer, count = put(clocked, "/raw/k", BODIES[0], {**SDK, "x-amz-meta-a": "b"})
    assert (answer.status, count) == (200, 1)
    assert put(clocked, "/raw/k?tagging", b"x" * 20, SDK)[0].status == 400
    assert read(clocked, "/raw/k") == BODIES[0]
    copied, _ = put(clocked, "/raw/l", b"", {**SDK, "x-amz-copy-source": "/raw/k"})
    assert copied.status == 200
    assert read(clocked, "/raw/l") == BODIES[0]


@pytest.mark.parametrize("step", [1, 7, 200, 1_000_000])
def test_a_stream_of_puts_is_stored_alike_however_it_is_split(clocked, step):
    learn(clocked)
    bodies = [*BODIES[:3], b"\r\n\r\n" * 5, b"PUT /raw/x HTTP/1.1\r", b"a" * 16 + b"\r\n\r\n"]
    stream = b"".join(
        head_of(clocked, f"/raw/s{number}", body, SDK) + body for number, body in enumerate(bodies)
    )

    async def talk():
        reader, writer = await asyncio.open_connection(*clocked.port._address)
        writer.write(head_of(clocked, "/raw/first", BODIES[0], SDK) + BODIES[0])
        statuses = [(await answer_of(reader))[0]]
        for at in range(0, len(stream), step):
            writer.write(stream[at : at + step])
            await asyncio.sleep(0)
        statuses += [(await answer_of(reader))[0] for _ in bodies]
        writer.close()
        return statuses

    assert clocked.runner.run(talk()) == [200] * (len(bodies) + 1)
    assert [read(clocked, f"/raw/s{number}") for number in range(len(bodies))] == bodies


def url_of(clocked, target, method="PUT", **keys):
    """Return the target of a URL that is signed a second later than the one before."""
    clocked.clock.now_ms += 1000
    return clocked.url(target, method, **keys)


def learn_urls(clocked, method="PUT", target="/raw/learnt", **keys):
    """Send requests with URLs of their own until the next one is remembered."""
    for number in range(8):
        before = len(clocked.identified)
        body = BODIES[number] if method == "PUT" else b""
        clocked.send(method, url_of(clocked, f"{target}-{number}", method, **keys), SDK, body)
        if len(clocked.identified) == before:
            return
    raise AssertionError("each URL is identified")


def send_url(clocked, url, body=b"", method="PUT"):
    before = len(clocked.identified)
    answer = clocked.send(method, url, SDK, body)
    return answer, len(clocked.identified) - before


def test_a_presigned_put_of_another_key_and_body_is_not_identified(clocked):
    learn_urls(clocked)
    for number, body in enumerate(BODIES):
        for target in (f"/raw/folder/{number}", "/raw/dt%3D1/a%20b", "/raw/k"):
            answer, count = send_url(clocked, url_of(clocked, target), body)
            assert (answer.status, count) == (200, 0)
            assert read(clocked, target) == body


def test_a_presigned_get_of_another_key_is_not_identified(clocked):
    for number, body in enumerate(BODIES):
        clocked.signed("PUT", f"/raw/{number}", body)
    learn_urls(clocked, "GET")
    for number, body in enumerate(BODIES):
        url = url_of(clocked, f"/raw/{number}", "GET")
        for _ in range(2):
            answer, count = send_url(clocked, url, method="GET")
            assert (answer.status, answer.body, count) == (200, body, 0)
        assert len(clocked.program.application._entry._repeats._same) > number
    absent, count = send_url(clocked, url_of(clocked, "/raw/absent", "GET"), method="GET")
    assert (*code_of(absent), count) == (404, "NoSuchKey", 0)


def test_the_signature_of_a_url_that_is_read_again_and_again_is_not_computed_each_time(
    clocked, monkeypatch
):
    learn_urls(clocked, "GET")
    computed = []
    is_signed = verify.Verifier._is_signed

    def counting(self, *arguments):
        computed.append(arguments)
        return is_signed(self, *arguments)

    monkeypatch.setattr(verify.Verifier, "_is_signed", counting)
    url = url_of(clocked, "/raw/k", "GET")
    for _ in range(6):
        answer, count = send_url(clocked, url, method="GET")
        assert (answer.body, count) == (b"first", 0)
    assert len(computed) == 2


@pytest.mark.parametrize("seconds", [60, 3600, 604_800])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_url_of_a_template_holds_from_its_time_to_its_end(clocked, method, seconds):
    def url_of_seconds(target):
        clocked.clock.now_ms += 1000
        at_ms = clocked.clock.now_ms
        prepared = requesting.signed(
            method, f"http://{HOST}{target}", at_ms=at_ms, expires_seconds=seconds, **KEYS
        )
        return prepared.url.partition(HOST)[2]

    body = BODIES[0] if method == "PUT" else b""
    counts = [send_url(clocked, url_of_seconds("/raw/k"), body, method)[1] for _ in range(5)]
    assert counts[-1] == 0
    url = url_of_seconds("/raw/k")
    signed_at_ms = clocked.clock.now_ms // 1000 * 1000
    for moment_ms, status in (
        (signed_at_ms + seconds * 1000 - 1, 200),
        (signed_at_ms + seconds * 1000, 403),
        (signed_at_ms - limits.CLOCK_SKEW_MS_MAX, 200),
        (signed_at_ms - limits.CLOCK_SKEW_MS_MAX - 1, 403),
    ):
        clocked.clock.now_ms = moment_ms
        for _ in range(4):  # one that is read again is remembered by its bytes
            answer, _ = send_url(clocked, url, body, method)
            assert answer.status == status, moment_ms - signed_at_ms


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        (r"X-Amz-Signature=(.)", lambda text: "1" if text == "0" else "0"),
        (
            r"X-Amz-Date=.{14}(.)",
            lambda text: str((int(text) + 1) % 10) if text.isdigit() else text,
        ),
        (r"X-Amz-Date=(.{15})Z", lambda _: "2025%31%31T160000"),
        (r"X-Amz-Expires=(....)", lambda _: "9999"),
        (r"/raw/(k)", lambda _: "l"),
        (r"&X-Amz-Exp()ires", lambda _: "&X-Amz-Date=20251121T160000Z"),
    ],
)
def test_a_changed_url_of_a_template_is_refused(clocked, method, pattern, change):
    clocked.signed("PUT", "/raw/l", b"another")
    learn_urls(clocked, method)
    body = BODIES[0] if method == "PUT" else b""
    url = url_of(clocked, "/raw/k", method)
    match = re.search(pattern, url)
    changed = url[: match.start(1)] + change(match[1]) + url[match.end(1) :]
    if changed != url:
        answer, _ = send_url(clocked, changed, body, method)
        assert answer.status in (400, 403)
    other = "PUT" if method == "GET" else "GET"
    refused, _ = send_url(clocked, url, BODIES[1] if other == "PUT" else b"", other)
    assert code_of(refused) == (403, "SignatureDoesNotMatch")
    assert (read(clocked, "/raw/k"), read(clocked, "/raw/l")) == (b"first", b"another")
    assert send_url(clocked, url, body, method)[0].status == 200


def test_urls_of_two_callers_are_of_two_templates(clocked):
    put_policy(clocked, NOT_ALLOWED)
    learn_urls(clocked)
    learn_urls(clocked, **test_resigned.ALICES)
    mine, count = send_url(clocked, url_of(clocked, "/raw/denied"), BODIES[0])
    assert (mine.status, count) == (200, 0)
    hers = url_of(clocked, "/raw/denied", **test_resigned.ALICES)
    refused, count = send_url(clocked, hers, BODIES[1])
    assert (*code_of(refused), count) == (403, "AccessDenied", 0)
    assert read(clocked, "/raw/denied") == BODIES[0]


def test_a_condition_about_the_age_of_a_url_counts_for_each(clocked):
    fresh = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::raw/*",
        "Condition": {"NumericGreaterThan": {"s3:signatureAge": "60000"}},
    }
    put_policy(clocked, fresh)
    learn_urls(clocked, "GET", **test_resigned.ALICES)
    url = url_of(clocked, "/raw/k", "GET", **test_resigned.ALICES)
    clocked.clock.now_ms += 50_000
    answer, count = send_url(clocked, url, method="GET")
    assert (answer.status, count) == (200, 0)
    clocked.clock.now_ms += 20_000
    refused, count = send_url(clocked, url, method="GET")
    assert (*code_of(refused), count) == (403, "AccessDenied", 0)
    later = url_of(clocked, "/raw/k", "GET", **test_resigned.ALICES)
    assert send_url(clocked, later, method="GET")[0].status == 200


def learn_later(clocked, headers=LATER, size_bytes=20, **keys):
    """Send PUTs whose bodies come behind their heads until the next head is remembered."""

    async def talk():
        reader, writer = await asyncio.open_connection(*clocked.port._address)
        # The head of a connection's first request is parsed.
        writer.write(head_of(clocked, "/raw/first", BODIES[0], SDK) + BODIES[0])
        assert (await answer_of(reader))[0] == 200
        for number in range(8):
            body = BODIES[number] * (size_bytes // 20)
            before = len(clocked.identified)
            target = f"/raw/later-{number}"
            await put_later(clocked, reader, writer, target, body, headers, **keys)
            if len(clocked.identified) == before:
                return reader, writer
        raise AssertionError("each PUT is identified")

    return talk()


async def put_later(clocked, reader, writer, target, body, headers=LATER, step=1 << 20, **keys):
    """Send a head, and its body in pieces once the server asks for it."""
    writer.write(head_of(clocked, target, body, headers, **keys))
    if "Expect" in headers:
        interim = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), waits.WAIT_SECONDS)
        assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    else:
        await asyncio.sleep(0.01)
    for at in range(0, len(body), step):
        writer.write(body[at : at + step])
        await asyncio.sleep(0)
    status, _ = await answer_of(reader)
    assert status == 200


@pytest.mark.parametrize("headers", [LATER, SDK], ids=["expects", "sends"])
@pytest.mark.parametrize("size_bytes", [20, 60_000, 3_000_000])
def test_a_body_may_come_behind_a_remembered_head(clocked, headers, size_bytes):
    async def talk():
        reader, writer = await learn_later(clocked, headers, size_bytes)
        for number, body in enumerate(BODIES):
            before = len(clocked.identified)
            whole = body * (size_bytes // 20)
            step = max(1, size_bytes // (number + 1))
            target = f"/raw/{number}"
            await put_later(clocked, reader, writer, target, whole, headers, step)
            assert len(clocked.identified) == before
        # The parser stands where it has to, so that another request is understood.
        writer.write(f"GET /_health HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode())
        assert (await answer_of(reader))[0] == 200
        writer.close()

    clocked.runner.run(talk())
    for number, body in enumerate(BODIES):
        assert read(clocked, f"/raw/{number}") == body * (size_bytes // 20)


def test_a_refused_put_with_a_remembered_head_is_not_asked_for_its_body(clocked):
    put_policy(clocked, NOT_ALLOWED)

    async def talk():
        # Root may do what the policy denies to others.
        reader, writer = await learn_later(clocked, **test_resigned.ALICES)
        before = len(clocked.identified)
        denied = head_of(clocked, "/raw/denied", BODIES[0], LATER, **test_resigned.ALICES)
        writer.write(denied)
        status, head = await answer_of(reader)
        assert (status, len(clocked.identified)) == (403, before)
        assert b"connection: close" in head
        assert await asyncio.wait_for(reader.read(), waits.WAIT_SECONDS) == b""
        writer.close()

    clocked.runner.run(talk())


@pytest.mark.parametrize(
    "more", [{"Expect": "100-continue"}, {"Expect": "x"}, {"Transfer-Encoding": "chunked"}]
)
def test_each_answer_to_a_head_that_ends_its_connection_says_so(clocked, more):
    url = clocked.url("/raw/k")
    lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
    head = f"GET {url} HTTP/1.1\r\nhost: {HOST}\r\n{lines}\r\n".encode()
    body = b"0\r\n\r\n" if "Transfer-Encoding" in more else b""

    async def talk():
        reader, writer = await asyncio.open_connection(*clocked.port._address)
        # The head of a connection's first request is parsed.
        writer.write(head_of(clocked, "/raw/first", BODIES[0], SDK) + BODIES[0])
        assert (await answer_of(reader))[0] == 200
        writer.write(head + body)
        status, answer = await answer_of(reader)
        assert await asyncio.wait_for(reader.read(), waits.WAIT_SECONDS) == b""
        writer.close()
        return status, b"connection: close" in answer

    for _ in range(4):
        assert clocked.runner.run(talk()) == (200, True)


def test_a_refused_put_without_a_body_ends_its_connection_as_one_with_a_body(clocked):
    headers = {**LATER, "If-None-Match": "*"}

    async def talk():
        reader, writer = await learn_later(clocked, headers)
        for number in range(8):
            await put_later(clocked, reader, writer, f"/raw/{number}", b"x" * 5, headers)
        writer.write(head_of(clocked, "/raw/k", b"", headers))
        status, head = await answer_of(reader)
        assert status == 412
        assert b"connection: close" in head
        assert await asyncio.wait_for(reader.read(), waits.WAIT_SECONDS) == b""
        writer.close()

    clocked.runner.run(talk())


def test_a_client_that_leaves_within_a_body_stores_nothing(clocked):
    async def talk():
        reader, writer = await learn_later(clocked)
        writer.write(head_of(clocked, "/raw/k", BODIES[0], LATER))
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), waits.WAIT_SECONDS)
        writer.write(BODIES[0][:7])
        await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.05)

    clocked.runner.run(talk())
    assert read(clocked, "/raw/k") == b"first"


def test_what_a_remembered_put_does_is_in_the_audit_log(clocked, tmp_path):
    learn(clocked)
    answer, count = put(clocked, "/raw/audited", BODIES[0], SDK)
    assert (answer.status, count) == (200, 0)
    request_id = answer.headers["x-amz-request-id"]

    def is_there():
        lines = [path.read_text() for path in (tmp_path / "data").rglob("audit*") if path.is_file()]
        return request_id in "".join(lines) and "raw/audited" in "".join(lines)

    clocked.runner.run(waits.until(is_there))


def test_heads_are_remembered_for_at_most_so_many_templates_of_a_length(clocked):
    """Bodies of any length, and headers that differ each time, fill nothing without end."""
    repeats = clocked.program.application._entry._repeats
    for number in range(300):
        headers = {**SDK, "x-amz-meta-mtime": f"{1_700_000_000 + number}"}
        assert put(clocked, f"/raw/{number}", b"x" * (number % 30), headers)[0].status == 200
    assert len(repeats._signed) < 30
    for same_length in (*repeats._templates.values(), *repeats._keyed.values()):
        assert len(same_length) <= limits.TEMPLATES_OF_LENGTH_MAX
