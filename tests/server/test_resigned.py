"""Requests that come again with another time and signature in their headers: parsed once, and
verified each time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import uuid
from xml.etree import ElementTree

import pytest

from server import asgi, config, limits, repeats, templates
from server.auth import sigv4
from server.transport import connection
from tests.kit import waits
from tests.server import clocked as clocking
from tests.server import requesting, test_templates
from tests.server.clocked import HOST, KEYS

ALICE = config.User(
    name="alice",
    access_key="AKALICE",
    secret_key="alice's secret",
    policies=(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "*", "Resource": "*"},
                {"Effect": "Deny", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::raw/denied"},
                {
                    "Effect": "Deny",
                    "Action": "s3:GetObject",
                    "Resource": "arn:aws:s3:::raw/fresh",
                    "Condition": {"NumericGreaterThanEquals": {"s3:signatureAge": "60000"}},
                },
            ],
        },
    ),
)
ALICES = {"access_key": "AKALICE", "secret_key": "alice's secret"}


@pytest.fixture
def clocked(tmp_path, monkeypatch):
    """A started program; `parsed` has the targets of the requests that were parsed."""
    parsed = []
    complete = connection.Connection.on_headers_complete

    def note(self):
        parsed.append(self._target)
        complete(self)

    monkeypatch.setattr(connection.Connection, "on_headers_complete", note)
    with clocking.started(tmp_path / "data", users=(ALICE,)) as clocked:
        for name in ("denied", "fresh"):
            clocked.signed("PUT", f"/raw/{name}", name.encode())
        clocked.parsed = parsed
        yield clocked


def learn(clocked, target="/raw/k", headers=(), **keys):
    """Send requests with new signatures until the next one is not parsed."""
    for _ in range(4):
        before = len(clocked.parsed)
        clocked.clock.now_ms += 1000
        answer, _ = clocked.get(target, headers, **keys)
        if len(clocked.parsed) == before:
            return answer
    raise AssertionError("the request is parsed each time")


def prepare(clocked, target="/raw/k", headers=(), *, at_ms=None, **keys):
    """Return the headers of a GET that is signed as of at_ms."""
    prepared = requesting.signed(
        "GET",
        f"http://{HOST}{target}",
        dict(headers).items(),
        at_ms=clocked.clock.now_ms if at_ms is None else at_ms,
        **{**KEYS, **keys},
    )
    return dict(prepared.headers.items())


def refusal(answer):
    return answer.status, ElementTree.fromstring(answer.body).findtext("Code")


def test_a_request_that_is_signed_anew_is_parsed_once_and_answered_anew(clocked):
    first = learn(clocked)
    clocked.clock.now_ms += 1000
    second, count = clocked.get("/raw/k")
    assert (count, first.status, first.body, second.body) == (0, 200, b"first", b"first")
    assert first.headers["x-amz-request-id"] != second.headers["x-amz-request-id"]
    assert first.headers.keys() == second.headers.keys()
    clocked.signed("PUT", "/raw/k", b"second")
    assert clocked.get("/raw/k")[0].body == b"second"
    clocked.signed("DELETE", "/raw/k")
    gone, count = clocked.get("/raw/k")
    assert (count, refusal(gone)) == (0, (404, "NoSuchKey"))


def test_the_headers_of_an_sdk_do_not_make_each_request_a_new_one(clocked):
    def sent():
        return {
            "User-Agent": "Boto3/1.43.0",
            "x-amz-checksum-mode": "ENABLED",
            "amz-sdk-invocation-id": str(uuid.uuid4()),
            "amz-sdk-request": "attempt=1",
        }

    learn(clocked, headers=sent())
    for _ in range(3):
        answer, count = clocked.get("/raw/k", sent())
        assert (answer.status, answer.body, count) == (200, b"first", 0)
    assert answer.headers["x-amz-checksum-crc64nvme"]


def test_a_head_request_is_repeated_as_one(clocked):
    counts = []
    for _ in range(4):
        clocked.get("/raw/k")  # the test's client takes a new connection after a HEAD
        answer, count = clocked.get("/raw/k", method="HEAD")
        assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "5")
        counts.append(count)
    assert counts == [1, 1, 0, 0]


def test_each_range_of_a_repeated_request_is_read_for_itself(clocked):
    def read(text):
        clocked.clock.now_ms += 1000
        return clocked.get("/raw/k", {"Range": text})[0]

    assert learn(clocked, headers={"Range": "bytes=0-1"}).body == b"fi"
    parsed = len(clocked.parsed)
    for text, status, body in (
        ("bytes=1-2", 206, b"ir"),
        ("bytes=3-9", 206, b"st"),
        ("bytes=9-9", 416, None),
        ("bytes=2-1", 200, b"first"),
        ("octet=0-1", 200, b"first"),
        ("bytes=0-1", 206, b"fi"),
    ):
        answer = read(text)
        assert answer.status == status
        assert body is None or answer.body == body
    assert len(clocked.parsed) == parsed


def test_a_wrong_signature_is_refused_however_often_it_comes(clocked):
    learn(clocked)
    headers = prepare(clocked)
    signature = headers["Authorization"][-64:]
    for wrong in (
        signature[:-1] + ("0" if signature[-1] != "0" else "1"),
        "0" * 64,
        signature.upper(),
        signature[1:] + signature[0],
        "=" * 64,
        "Signature=" + signature[10:],
    ):
        spoilt = {**headers, "Authorization": headers["Authorization"][:-64] + wrong}
        for _ in range(2):
            answer = clocked.send("GET", "/raw/k", spoilt.items())
            assert refusal(answer) == (403, "SignatureDoesNotMatch")
            assert wrong.encode() in answer.body
    assert clocked.counted("GET", "/raw/k", headers.items())[0].status == 200


@pytest.mark.parametrize("time", ["20251399T160000Z", "99999999T999999Z", "20251121-160000Z"])
def test_a_time_of_no_calendar_is_refused_however_often_it_comes(clocked, time):
    learn(clocked)
    headers = {**prepare(clocked), "X-Amz-Date": time}
    headers["Authorization"] = headers["Authorization"][:-64] + "0" * 64
    for _ in range(3):
        assert clocked.send("GET", "/raw/k", headers.items()).status == 403
    assert clocked.get("/raw/k")[0].status == 200


@pytest.mark.parametrize("name", ["X-Amz-Date", "amz-sdk-invocation-id", "Range", "Authorization"])
def test_a_value_of_another_request_is_refused(clocked, name):
    def sent(number):
        return {"amz-sdk-invocation-id": str(uuid.UUID(int=number)), "Range": f"bytes=0-{number}"}

    learn(clocked, headers=sent(0))
    one = prepare(clocked, headers=sent(4))
    clocked.clock.now_ms += 1000
    other = prepare(clocked, headers=sent(5))
    for first, second in ((one, other), (other, one)):
        mixed = {**first, name: second[name]}
        answer = clocked.send("GET", "/raw/k", mixed.items())
        assert refusal(answer) == (403, "SignatureDoesNotMatch")
        parsed = len(clocked.parsed)
        assert clocked.send("GET", "/raw/k", first.items()).status == 206
        assert len(clocked.parsed) == parsed


@pytest.mark.parametrize("target", ["/raw/k", "/raw?list-type=2"])
def test_a_header_in_the_place_of_an_unsigned_value_is_a_header(clocked, target):
    """It is as long as the value, so that the heads around the values are the same bytes."""
    invocation = "0f8fad5b-d9cb-469f-a165-70867728950e"

    def send(value):
        clocked.clock.now_ms += 1000
        sent = {**prepare(clocked, target), "amz-sdk-invocation-id": value}
        return clocked.counted("GET", target, sent.items())

    counts = [send(invocation)[1] for _ in range(4)]
    assert counts[-1] == 0
    answer, _ = send("0\r\nx-amz-expected-bucket-owner: 1".ljust(len(invocation), "1"))
    assert refusal(answer) == (403, "AccessDenied")
    assert b"x-amz-expected-bucket-owner" in answer.body
    assert send(invocation)[1] == 0


def test_a_signature_for_another_object_is_refused(clocked):
    clocked.signed("PUT", "/raw/l", b"other")
    learn(clocked, "/raw/k")
    learn(clocked, "/raw/l")
    clocked.clock.now_ms += 1000
    headers = prepare(clocked, "/raw/k")
    assert clocked.send("GET", "/raw/k", headers.items()).body == b"first"
    for _ in range(2):
        answer = clocked.send("GET", "/raw/l", headers.items())
        assert refusal(answer) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("is_latest", [True, False])
def test_a_signature_holds_for_the_time_that_clocks_may_differ(clocked, is_latest):
    learn(clocked)
    signed_at_ms = clocked.clock.now_ms
    headers = prepare(clocked)
    if is_latest:
        assert clocked.send("GET", "/raw/k", headers.items()).status == 200
    for offset_ms in (-limits.CLOCK_SKEW_MS_MAX, limits.CLOCK_SKEW_MS_MAX):
        clocked.clock.now_ms = signed_at_ms + offset_ms
        assert clocked.counted("GET", "/raw/k", headers.items())[0].status == 200
        clocked.clock.now_ms += 1 if offset_ms > 0 else -1
        answer = clocked.send("GET", "/raw/k", headers.items())
        assert refusal(answer) == (403, "RequestTimeTooSkewed")


def test_a_time_of_another_day_than_the_scopes_is_refused(clocked):
    day_ms = 24 * 60 * 60 * 1000
    clocked.clock.now_ms += day_ms - clocked.clock.now_ms % day_ms - 5000
    learn(clocked)
    headers = prepare(clocked)
    rest = headers["Authorization"].rpartition("Signature=")[0] + "Signature="
    credential = re.search(r"Credential=([^,]+)", rest)[1]
    _, date, *scope = credential.split("/")
    clocked.clock.now_ms += 5000
    tomorrow = sigv4.format_timestamp(clocked.clock.now_ms)
    assert tomorrow[:8] != date
    key = sigv4.signing_key(KEYS["secret_key"], date=date, region=scope[0], service=scope[1])
    canonical = sigv4.canonical_request(
        method="GET",
        path=b"/raw/k",
        query=b"",
        headers=(
            f"host:{HOST}\nx-amz-content-sha256:{headers['X-Amz-Content-SHA256']}\n"
            f"x-amz-date:{tomorrow}\n"
        ).encode(),
        names=(b"host", b"x-amz-content-sha256", b"x-amz-date"),
        payload_hash=headers["X-Amz-Content-SHA256"],
    )
    text = sigv4.string_to_sign(tomorrow, "/".join((date, *scope)), canonical)
    spoilt = {
        **headers,
        "X-Amz-Date": tomorrow,
        "Authorization": rest + sigv4.sign(key, text),
    }
    answer = clocked.send("GET", "/raw/k", spoilt.items())
    assert refusal(answer) == (400, "AuthorizationHeaderMalformed")
    assert clocked.get("/raw/k")[0].status == 200


def test_a_repeated_request_ends_with_its_access_key(clocked):
    learn(clocked)
    people = clocked.program.principals
    entry = people._by_access_key.pop("ROOTKEY")
    assert refusal(clocked.get("/raw/k")[0]) == (403, "InvalidAccessKeyId")
    people._by_access_key["ROOTKEY"] = dataclasses.replace(entry, secret_key="another")
    assert refusal(clocked.get("/raw/k")[0]) == (403, "SignatureDoesNotMatch")
    assert clocked.get("/raw/k", secret_key="another")[0].status == 200


@pytest.mark.parametrize("way", ["signed anew", "presigned"])
def test_a_request_is_remembered_again_after_its_entry_was_replaced(clocked, way):
    """Any change of users gives every stored user a new entry."""
    url = clocked.url("/raw/k")

    def count():
        clocked.clock.now_ms += 1000
        before = len(clocked.identified)
        answer = clocked.get("/raw/k")[0] if way == "signed anew" else clocked.send("GET", url)
        assert answer.status == 200
        return len(clocked.identified) - before

    for _ in range(4):
        count()
    for _ in range(8):
        assert count() == 0
        people = clocked.program.principals
        people._by_access_key["ROOTKEY"] = dataclasses.replace(people._by_access_key["ROOTKEY"])
        assert count() == 1


def test_rights_are_judged_for_each_request_and_each_principal(clocked):
    assert len(ALICES["access_key"]) == len(KEYS["access_key"]), "heads of one length"
    assert learn(clocked, "/raw/denied").status == 200
    assert learn(clocked, **ALICES).status == 200
    for _ in range(4):
        clocked.clock.now_ms += 1000
        assert clocked.get("/raw/denied")[0].body == b"denied"
        assert refusal(clocked.get("/raw/denied", **ALICES)[0]) == (403, "AccessDenied")
        answer, count = clocked.get("/raw/k", **ALICES)
        assert (count, answer.body) == (0, b"first")


def test_conditions_are_about_the_time_of_each_signature(clocked):
    assert learn(clocked, "/raw/fresh", **ALICES).status == 200
    now_ms = clocked.clock.now_ms
    for age_ms, status in ((0, 200), (59_000, 200), (60_000, 403), (10_000, 200)):
        headers = prepare(clocked, "/raw/fresh", at_ms=now_ms - age_ms, **ALICES)
        answer, count = clocked.counted("GET", "/raw/fresh", headers.items())
        assert (count, answer.status) == (0, status)


def test_two_clients_whose_heads_have_one_length_are_both_remembered(clocked):
    one = {"X-Client": "short", "amz-sdk-invocation-id": "1234567"}
    two = {"X-Client": "longer", "amz-sdk-invocation-id": "123456"}
    for sent in (one, two):
        learn(clocked, headers=sent)
    for _ in range(2):
        for sent in (one, two):
            answer, count = clocked.get("/raw/k", sent)
            assert (answer.body, count) == (b"first", 0)


def test_what_reads_the_headers_sees_those_of_each_request(clocked, monkeypatch):
    learn(clocked)
    seen = []
    start = asgi.Request.__init__

    def noting(request, *arguments, **settings):
        start(request, *arguments, **settings)
        seen.append(request)

    monkeypatch.setattr(asgi.Request, "__init__", noting)
    clocked.clock.now_ms += 7000
    headers = prepare(clocked)
    assert clocked.counted("GET", "/raw/k", headers.items())[1] == 0
    (request,) = seen
    sent = {name.lower().encode(): value.encode() for name, value in headers.items()}
    assert request.headers.joined == {b"host": HOST.encode(), **sent}
    assert dict(request.headers.raw) == request.headers.joined


def session_of(clocked):
    """Return session credentials of Alice, and when they end."""
    form = b"Action=GetSessionToken&Version=2011-06-15&DurationSeconds=900"
    sent = {"content-type": "application/x-www-form-urlencoded"}
    prepared = requesting.signed(
        "POST",
        f"http://{HOST}/",
        sent.items(),
        form,
        service="sts",
        at_ms=clocked.clock.now_ms,
        **ALICES,
    )
    answer = clocked.send("POST", "/", prepared.headers.items(), form)
    issued = {
        element.tag.partition("}")[2]: element.text
        for element in ElementTree.fromstring(answer.body).iter()
    }
    session = {
        "access_key": issued["AccessKeyId"],
        "secret_key": issued["SecretAccessKey"],
        "token": issued["SessionToken"],
    }
    return session, clocked.clock.now_ms + 900_000


def test_session_credentials_are_repeated_until_they_end(clocked):
    session, ends_at_ms = session_of(clocked)
    assert learn(clocked, **session).body == b"first"
    assert refusal(clocked.get("/raw/denied", **session)[0]) == (403, "AccessDenied")
    clocked.clock.now_ms = ends_at_ms - 1
    assert clocked.get("/raw/k", **session)[0].status == 200
    clocked.clock.now_ms = ends_at_ms
    assert refusal(clocked.get("/raw/k", **session)[0]) == (400, "ExpiredToken")


def test_urls_of_session_credentials_are_repeated_until_these_end(clocked):
    """Each URL holds for an hour, but its token does not."""
    session, ends_at_ms = session_of(clocked)

    def read(url):
        before = len(clocked.parsed)
        return clocked.send("GET", url), len(clocked.parsed) - before

    for _ in range(4):
        clocked.clock.now_ms += 1000
        url = clocked.url("/raw/k", **session)
        answer, count = read(url)
        assert answer.body == b"first"
    assert count == 0
    clocked.clock.now_ms = ends_at_ms - 1
    for each in (url, clocked.url("/raw/k", **session)):
        for _ in range(3):  # one that is read again is remembered by its bytes
            answer, count = read(each)
            assert (answer.status, count) == (200, 0)
    clocked.clock.now_ms = ends_at_ms
    for each in (url, clocked.url("/raw/k", **session)):
        assert refusal(read(each)[0]) == (400, "ExpiredToken")


def test_a_head_with_a_date_header_is_parsed_each_time(clocked):
    for _ in range(4):
        clocked.clock.now_ms += 1000
        sent = {**prepare(clocked), "Date": "Fri, 21 Nov 2025 16:00:00 GMT"}
        answer, count = clocked.counted("GET", "/raw/k", sent.items())
        assert (answer.status, count) == (200, 1)


def test_a_write_is_identified_each_time(clocked):
    for _ in range(5):
        before = len(clocked.identified)
        assert clocked.signed("DELETE", "/raw/none").status == 204
        assert len(clocked.identified) == before + 1


@pytest.mark.parametrize("step", [1, 7, 1_000_000])
def test_a_stream_of_signed_heads_is_answered_alike_however_it_is_split(clocked, step):
    learn(clocked)
    heads = []
    for _ in range(4):
        clocked.clock.now_ms += 1000
        lines = [f"{name}: {value}\r\n" for name, value in prepare(clocked).items()]
        heads.append(f"GET /raw/k HTTP/1.1\r\nhost: {HOST}\r\n{''.join(lines)}\r\n".encode())
    stream = b"".join(heads[1:])

    async def talk():
        reader, writer = await asyncio.open_connection(*clocked.port._address)
        writer.write(heads[0])
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


# Requests that differ in their keys.

DENIED = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:GetObject",
    "Resource": "arn:aws:s3:::raw/folder/*",
}
IN_HEADER = {"Condition": {"StringEquals": {"s3:authType": "REST-HEADER"}}}
IN_QUERY = {"Condition": {"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}}
OTHERS = {
    "/raw/l": b"other",
    "/raw/folder/a-long_name.txt": b"deep",
    "/raw/a//.~": b"odd",
    "/raw/dt%3D1/a%20b%2Fc": b"escaped",
}


def store_others(clocked):
    for target, body in OTHERS.items():
        assert clocked.signed("PUT", target, body).status == 200


def test_a_request_for_another_key_is_not_parsed(clocked):
    store_others(clocked)
    learn(clocked)
    for _ in range(2):
        for target, body in {**OTHERS, "/raw/k": b"first"}.items():
            answer, count = clocked.get(target)
            assert (answer.status, answer.body, count) == (200, body, 0)
            assert answer.headers["content-length"] == str(len(body))
    absent, count = clocked.get("/raw/absent")
    assert (count, refusal(absent)) == (0, (404, "NoSuchKey"))
    resource = ElementTree.fromstring(absent.body).findtext("Resource")
    assert resource == "/raw/absent"
    clocked.signed("PUT", "/raw/absent", b"not any more")
    assert clocked.get("/raw/absent")[0].body == b"not any more"


@pytest.mark.parametrize(
    "target", ["/raw/a%C3%A9", "/raw/a%25b", "/raw/a%3Db", "/raw/%5B", "/raw/" + "k" * 600]
)
def test_a_key_that_is_escaped_or_long_is_read_all_the_same(clocked, target):
    assert clocked.signed("PUT", target, b"escaped").status == 200
    learn(clocked)
    for _ in range(4):
        clocked.clock.now_ms += 1000
        assert clocked.get(target)[0].body == b"escaped"
        assert clocked.get("/raw/k")[0].body == b"first"


@pytest.mark.parametrize("target", ["/raw/a=b", "/raw/a+b", "/raw/a@b"])
def test_a_path_that_is_not_signed_in_its_canonical_form_is_refused_each_time(clocked, target):
    assert refusal(clocked.get(target)[0]) == (403, "SignatureDoesNotMatch")
    learn(clocked)
    for _ in range(2):
        assert refusal(clocked.get(target)[0]) == (403, "SignatureDoesNotMatch")


def test_keys_of_another_bucket_are_those_of_another_head(clocked):
    assert clocked.signed("PUT", "/war").status == 200
    assert clocked.signed("PUT", "/war/k", b"of another").status == 200
    learn(clocked)
    bodies = [clocked.get(target)[0].body for target in ("/war/k", "/raw/k") * 3]
    assert bodies == [b"of another", b"first"] * 3
    assert refusal(clocked.get("/raw2/k")[0]) == (404, "NoSuchBucket")
    assert clocked.get("/raw/")[0].body.count(b"<Key>k</Key>") == 1
    assert refusal(clocked.get("//k")[0])[0] == 400


def test_keys_of_a_bucket_in_the_host_are_not_parsed_either(clocked):
    store_others(clocked)
    host = "raw.localhost:5253"

    def read(path):
        clocked.clock.now_ms += 1000
        prepared = requesting.signed(
            "GET", f"http://{host}{path}", at_ms=clocked.clock.now_ms, **KEYS
        )
        before = len(clocked.parsed)
        answer, _ = clocked.counted("GET", path, {"host": host, **prepared.headers}.items())
        return answer.body, len(clocked.parsed) - before

    read("/k"), read("/k")
    assert read("/k") == (b"first", 0)
    for target, body in OTHERS.items():
        assert read(target.removeprefix("/raw")) == (body, 0)


def test_a_query_that_names_no_version_is_part_of_the_head(clocked):
    store_others(clocked)
    learn(clocked, "/raw/k?x-id=GetObject")
    answer, count = clocked.get("/raw/l?x-id=GetObject")
    assert (answer.body, count) == (b"other", 0)
    answer, count = clocked.get("/raw/l?x-id=GetObjecT")
    assert (answer.body, count) == (b"other", 1)
    assert refusal(clocked.get("/raw/l?versionId=none")[0]) == (400, "InvalidArgument")


@pytest.mark.parametrize(
    ("condition", "is_denied"), [({}, True), (IN_HEADER, True), (IN_QUERY, False)]
)
def test_a_changed_policy_counts_for_the_next_key_of_a_remembered_head(
    clocked, condition, is_denied
):
    store_others(clocked)
    learn(clocked, **ALICES)
    folder = "/raw/folder/a-long_name.txt"
    policy = {"Version": "2012-10-17", "Statement": [DENIED | condition]}
    for _ in range(2):
        assert clocked.get(folder, **ALICES)[0].status == 200
        assert clocked.signed("PUT", "/raw?policy", json.dumps(policy).encode()).status == 204
        answer, count = clocked.get(folder, **ALICES)
        assert (count, answer.status) == (0, 403 if is_denied else 200)
        assert clocked.get("/raw/l", **ALICES)[0].body == b"other"
        assert clocked.signed("DELETE", "/raw?policy").status == 204
        answer, count = clocked.get(folder, **ALICES)
        assert (count, answer.body) == (0, b"deep")


def test_requests_of_two_services_in_turn_reach_their_faces(clocked):
    assert clocked.signed("PUT", "/buckets").status == 200
    for _ in range(3):
        of_s3 = clocked.get("/buckets")[0]
        assert of_s3.body.startswith(b"<?xml")
        of_tables = clocked.get("/buckets", service="s3tables")[0]
        assert [each["name"] for each in of_tables.json["tableBuckets"]] == ["lake"]


def test_a_denied_key_of_a_remembered_head_is_in_the_audit_log(clocked):
    learn(clocked, **ALICES)
    answer, count = clocked.get("/raw/denied", **ALICES)
    assert (count, refusal(answer)) == (0, (403, "AccessDenied"))
    audit = clocked.program.application._entry._audit
    lines = [json.loads(line) for line in clocked.runner.run(audit.latest("audit"))]
    denied = [line for line in lines if line["event"] == "deny"]
    assert [line["resource"] for line in denied] == ["arn:aws:s3:::raw/denied"]
    assert denied[0]["request_id"] == answer.headers["x-amz-request-id"]


def test_a_range_of_another_key_is_that_of_its_request(clocked):
    store_others(clocked)
    learn(clocked, headers={"Range": "bytes=0-1"})
    parsed = len(clocked.parsed)
    answer, _ = clocked.get("/raw/l", {"Range": "bytes=1-2"})
    assert (answer.status, answer.body) == (206, b"th")
    assert len(clocked.parsed) == parsed


# The tables.


def seen(head, method="GET", path=b"/bucket/key"):
    """Return a Request of a head."""
    headers = test_templates.Parsed(head).headers
    scope = {"method": method, "raw_path": path, "query_string": b"", "scheme": "http"}
    return asgi.Request({**scope, "headers": headers}, None, request_id="")


def repeat_of(head):
    return repeats.Repeat(
        {"raw_path": b"/bucket/key"}, seen(head).headers, "s3", None, None, None, None
    )


def test_a_head_is_looked_at_when_it_comes_again_and_then_less_and_less_often():
    remembered = repeats.Repeats(asgi.LateHeaders)
    looked = [
        number
        for number in range(1, 100)
        if remembered.find_template(test_templates.PLAIN, seen(test_templates.PLAIN))
    ]
    assert looked == [2, 4, 8, 16, 32, 64]
    assert not any(
        remembered.find_template(test_templates.FULL, seen(test_templates.FULL, method))
        for method in ("PUT", "POST", "DELETE")
        for _ in range(4)
    )


def test_a_new_day_and_a_new_session_token_are_looked_at_anew():
    """A client that asks for one object for weeks gets a template each day, and not ever later."""
    remembered = repeats.Repeats(asgi.LateHeaders)
    for day in range(1, 29):
        for token in ("one", "two"):
            at_ms = requesting.NOW_MS + day * 86_400_000
            head = test_templates.head_of([("x-amz-security-token", token)], at_ms=at_ms)
            templates_of = [remembered.find_template(head, seen(head)) for _ in range(2)]
            assert templates_of[0] is None
            assert templates_of[1] is not None


def test_a_head_of_one_template_is_not_found_by_another_that_leaves_the_same_bytes():
    """The same bytes are left of two heads of one length, whose values stand in other places."""
    one = b"GET / HTTP/1.1\r\nx-amz-date: aaaa\r\nrange: \r\n\r\n"
    two = b"GET / HTTP/1.1\r\nx-amz-date: \r\nrange: aaaa\r\n\r\n"
    names = (b"x-amz-date", b"range")
    first = templates.Template(names, ((28, 32), (41, 41)), (0, 1))
    second = templates.Template(names, ((28, 28), (37, 41)), (0, 1))
    assert first.rest(one) == second.rest(two)
    remembered = repeats.Repeats(asgi.LateHeaders)
    remembered.keep_signed(one, first, repeat_of(one))
    assert remembered.find(one).parts == (b"aaaa", b"")
    assert remembered.find(two) is None
    remembered.keep_signed(two, second, repeat_of(two))
    assert remembered.find(two).parts == (b"", b"aaaa")
    assert remembered.find(one) is None


def test_a_head_with_a_key_is_not_found_by_another_template_that_leaves_the_same_bytes():
    one = b"GET /b/k HTTP/1.1\r\nx-amz-date: aaaa\r\nrange: \r\n\r\n"
    two = b"GET /b/k HTTP/1.1\r\nx-amz-date: \r\nrange: aaaa\r\n\r\n"
    names = (b"x-amz-date", b"range", templates.KEY)
    keyed = {"searched_from": 5, "tail_bytes": len(one) - len(b"GET /b/k")}
    first = templates.Template(names, ((-17, -13), (-4, -4)), (0, 1), **keyed)
    second = templates.Template(names, ((-17, -17), (-8, -4)), (0, 1), **keyed)
    assert first.rest(one) == second.rest(two)
    remembered = repeats.Repeats(asgi.LateHeaders)
    kept = repeat_of(one)
    remembered.keep_signed(one, first, kept)
    assert remembered.find(one).parts == (b"aaaa", b"", b"k")
    assert remembered.find(two) is None
    remembered.keep_signed(two, second, kept)
    assert remembered.find(two).parts == (b"", b"aaaa", b"k")
    assert remembered.find(one) is None


@pytest.mark.parametrize("has_key", [False, True])
def test_heads_of_many_buckets_are_remembered_together(has_key):
    """Their values stand in the same places, so they are of one template."""
    remembered = repeats.Repeats(asgi.LateHeaders)
    heads = []
    for number in range(2 * limits.TEMPLATES_OF_LENGTH_MAX):
        bucket = f"/bucke{chr(97 + number)}"
        head = test_templates.head_of(target=f"{bucket}/key")
        request = seen(head, path=f"{bucket}/key".encode())
        for _ in range(2):
            template = remembered.find_template(head, request, key="key" if has_key else "")
        kept = repeats.Repeat(
            {"raw_path": request.raw_path}, request.headers, bucket, None, None, None, None
        )
        remembered.keep_signed(head, template, kept)
        heads.append((head, bucket))
    for head, bucket in heads:
        assert remembered.find(head).name == bucket


def test_the_rest_of_a_head_is_no_head():
    head = test_templates.PLAIN
    template = test_templates.template_of(head)
    remembered = repeats.Repeats(asgi.LateHeaders)
    remembered.keep_signed(head, template, repeat_of(head))
    assert remembered.find(head) is not None
    assert remembered.find(template.rest(head)) is None


def test_the_tables_are_bounded():
    remembered = repeats.Repeats(asgi.LateHeaders, count_max=10)
    for number in range(100):
        head = test_templates.head_of([("a", "b" * number)])
        for _ in range(2):
            template = remembered.find_template(head, seen(head))
        remembered.keep_signed(head, template, repeat_of(head))
        for width in range(10):
            other = head.replace(b"\r\na: ", b"\r\n" + b"c" * width + b"a: ", 1)[: len(head)]
            spans = tuple((start + width, stop + width) for start, stop in template.spans)
            moved = templates.Template(template.names, spans, template.indexes)
            remembered.keep_signed(other, moved, repeat_of(head))
        assert remembered.find(head) is None or number == 0 or len(remembered._signed) <= 10
        assert len(remembered._signed) <= 10
        assert len(remembered._templates) <= 10
        assert len(remembered._keyed) <= 10
        assert len(remembered._sights) <= 10
        keyed = test_templates.keyed_of(test_templates.head_of([("a", "b" * number)]))
        other = test_templates.head_of([("a", "b" * number)])
        for from_end in range(10):
            spans = tuple((start - from_end, stop - from_end) for start, stop in keyed.spans)
            settings = {"searched_from": keyed.searched_from, "tail_bytes": keyed.tail_bytes}
            moved = templates.Template(keyed.names, spans, keyed.indexes, **settings)
            remembered.keep_signed(other, moved, repeat_of(head))
        for same_length in (*remembered._templates.values(), *remembered._keyed.values()):
            assert len(same_length) <= limits.TEMPLATES_OF_LENGTH_MAX
