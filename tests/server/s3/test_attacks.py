"""Attacks over the wire: each is answered by an error, learns nothing and changes nothing.

bob has a private object, a table and an upload. The attacker has no credential, or keys that are
valid: alice's, who has a table of her own beside bob's and no right on anything of his.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from server import config
from tests.kit import rest, users, waits
from tests.kit import s3 as kit
from tests.server import requesting

SECRET = b"what bob alone may read"
HOME = "bob/secret/data/f.parquet"
QUARTER_MS = 15 * 60 * 1000
HOUR_MS = 60 * 60 * 1000

Attack = Callable[["Victim"], kit.Answer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Victim:
    """The server, and what bob has there."""

    place: kit.ObjectStore
    upload_id: str
    before: tuple[Any, ...] = ()

    def call(self, user: str, method: str, target: str, *more: Any, **signing: Any) -> kit.Answer:
        """Send a request that a user has signed."""
        keys = {"access_key": users.access_key(user), "secret_key": users.secret_key(user)}
        return kit.call(self.place, method, target, *more, **{**keys, **signing})

    def state(self) -> tuple[Any, ...]:
        """What bob has: no attack may change it."""
        target = f"/lake/bob/secret/data/up.parquet?uploadId={self.upload_id}"
        upload = self.call("bob", "GET", target)
        listed = kit.call(self.place, "GET", "/private?versions")
        return (
            kit.call(self.place, "GET", "/private/k").body,
            self.call("bob", "GET", f"/lake/{HOME}").body,
            upload.body.partition(b"<Part>")[2],
            listed.body,
        )


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    accounts = [
        config.User(
            name=name,
            access_key=users.access_key(name),
            secret_key=users.secret_key(name),
            policies=tuple(users.POLICIES[name]),
        )
        for name in ("alice", "bob")
    ]
    with kit.serve(tmp_path_factory.mktemp("attacks") / "data", users=accounts) as place:
        catalog: Any = place
        with rest.Client(catalog) as client:
            client.make_table("alice", "mine")
            client.make_table("bob", "secret")
        kit.call(place, "PUT", "/private")
        kit.call(place, "PUT", "/private/k", body=SECRET)
        kit.call(place, "PUT", "/private/a%2Fb", body=SECRET)
        unprepared = Victim(place=place, upload_id="")
        assert unprepared.call("bob", "PUT", f"/lake/{HOME}", body=SECRET).status == 200
        begun = unprepared.call("bob", "POST", "/lake/bob/secret/data/up.parquet?uploads")
        victim = dataclasses.replace(unprepared, upload_id=begun.element("UploadId"))
        target = f"/lake/bob/secret/data/up.parquet?partNumber=1&uploadId={victim.upload_id}"
        assert victim.call("bob", "PUT", target, body=SECRET).status == 200
        victim = dataclasses.replace(victim, before=victim.state())
        assert victim.before[:2] == (SECRET, SECRET)
        yield victim


def attempt(victim: Victim, attack: Attack) -> kit.Answer:
    """Attack; return the answer, which is an error that contains nothing of bob's."""
    answer = attack(victim)
    assert 400 <= answer.status < 500 or answer.status == 501, answer
    assert SECRET not in answer.body
    assert victim.state() == victim.before
    return answer


def altered(
    victim: Victim,
    signed_target: str,
    *,
    method: str = "GET",
    sent_method: str | None = None,
    sent_target: str | None = None,
    headers: dict[str, str] | None = None,
    added: dict[str, str] | None = None,
    body: bytes = b"",
) -> kit.Answer:
    """Send root's signature of one request with another request."""
    digest = hashlib.sha256(b"").hexdigest()
    signed = kit.sign(victim.place, method, signed_target, headers, payload_hash=digest)
    return kit.send(
        victim.place,
        sent_method or method,
        sent_target or signed_target,
        {**signed, **(added or {})},
        body,
    )


def signed_at(victim: Victim, at_ms: int, **more: Any) -> kit.Answer:
    """Send a request of root's that was signed at another time, by header or in the query."""
    prepared = requesting.signed(
        "GET",
        f"{victim.place.url}/private/k",
        access_key=victim.place.access_key,
        secret_key=victim.place.secret_key,
        at_ms=at_ms,
        **more,
    )
    target = prepared.url.removeprefix(victim.place.url)
    return kit.send(victim.place, "GET", target, dict(prepared.headers))


@pytest.mark.parametrize("target", ["/private/k", f"/lake/{HOME}", "/private", "/lake", "/"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
def test_an_unsigned_request_gets_nothing(victim: Victim, method: str, target: str) -> None:
    attempt(victim, lambda v: kit.send(v.place, method, target))


@pytest.mark.parametrize("target", ["/private/k", f"/lake/{HOME}"])
def test_a_wrong_signature_gets_nothing(victim: Victim, target: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = attempt(
            victim, lambda v, m=method: kit.call(v.place, m, target, secret_key="guessed")
        )
        assert answer.code == "SignatureDoesNotMatch"
        answer = attempt(victim, lambda v, m=method: v.call("bob", m, target, secret_key="guessed"))
        assert answer.code == "SignatureDoesNotMatch"


def test_a_request_replayed_after_a_quarter_of_an_hour_gets_nothing(victim: Victim) -> None:
    now_ms = int(time.time() * 1000)
    for at_ms in (now_ms - QUARTER_MS - HOUR_MS, now_ms + QUARTER_MS + HOUR_MS):
        answer = attempt(victim, lambda v, at=at_ms: signed_at(v, at))
        assert answer.code == "RequestTimeTooSkewed"


def test_a_signature_replayed_with_another_body_stores_nothing(victim: Victim) -> None:
    answer = attempt(
        victim,
        lambda v: altered(
            v, "/private/k", method="PUT", body=b"mine", added={"content-length": "4"}
        ),
    )
    assert answer.code == "XAmzContentSHA256Mismatch"


def test_an_expired_presigned_url_gets_nothing(victim: Victim) -> None:
    at_ms = int(time.time() * 1000) - HOUR_MS
    answer = attempt(victim, lambda v: signed_at(v, at_ms, expires_seconds=60))
    assert (answer.status, answer.code) == (403, "AccessDenied")
    longer = attempt(
        victim,
        lambda v: _presigned(v, lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=600")),
    )
    assert longer.code == "SignatureDoesNotMatch"


def _presigned(victim: Victim, change: Callable[[str], str]) -> kit.Answer:
    client = kit.client(victim.place, config={"signature_version": "s3v4"})
    url = client.generate_presigned_url(
        "get_object", Params={"Bucket": "private", "Key": "k"}, ExpiresIn=60
    )
    answer = requests.get(change(url), timeout=waits.WAIT_SECONDS)
    return kit.Answer(
        status=answer.status_code,
        headers={name.lower(): value for name, value in answer.headers.items()},
        body=answer.content,
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("us-east-1", "eu-west-1"),
        ("%2Fs3%2F", "%2Fs3tables%2F"),
        ("/private/k", "/private/a%2Fb"),
        ("SignedHeaders=host", "SignedHeaders=host%3Bx-amz-date"),
    ],
)
def test_a_presigned_url_that_was_altered_gets_nothing(victim: Victim, old: str, new: str) -> None:
    def change(url: str) -> str:
        assert old in url
        return url.replace(old, new)

    attempt(victim, lambda v: _presigned(v, change))


def test_a_scope_of_another_region_gets_nothing(victim: Victim) -> None:
    def attack(v: Victim) -> kit.Answer:
        digest = hashlib.sha256(b"").hexdigest()
        signed = kit.sign(v.place, "GET", "/private/k", payload_hash=digest)
        signed["authorization"] = signed["authorization"].replace(kit.REGION, "eu-west-1")
        return kit.send(v.place, "GET", "/private/k", signed)

    assert attempt(victim, attack).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("headers", "added", "code"),
    [
        ({"x-amz-acl": "private"}, {"x-amz-acl": "public-read"}, "SignatureDoesNotMatch"),
        ({}, {"x-amz-acl": "public-read"}, "AccessDenied"),
        ({}, {"x-amz-copy-source": "/private/a%2Fb"}, "AccessDenied"),
        ({}, {"x-amz-meta-by": "mallory"}, "AccessDenied"),
        ({}, {"host": "lake.localhost"}, "SignatureDoesNotMatch"),
    ],
)
def test_a_header_that_was_altered_or_added_changes_nothing(
    victim: Victim, headers: dict[str, str], added: dict[str, str], code: str
) -> None:
    answer = attempt(
        victim,
        lambda v: altered(v, "/private/k", method="PUT", headers=headers, added=added),
    )
    assert answer.code == code


@pytest.mark.parametrize(
    ("signed", "sent"),
    [
        ("/private/a/b", "/private/a%2Fb"),
        ("/private/a%252Fb", "/private/a%2Fb"),
        ("/private/x/../k", "/private/k"),
        ("/private//k", "/private/k"),
        ("/private/K", "/private/k"),
        ("/private/k/", "/private/k"),
        ("/private/k?x-id=GetObject", "/private/k"),
        ("/private/none", "/private/k"),
        ("/other/k", "/private/k"),
    ],
)
def test_a_path_that_was_altered_gets_nothing(victim: Victim, signed: str, sent: str) -> None:
    answer = attempt(victim, lambda v: altered(v, signed, sent_target=sent))
    assert answer.code == "SignatureDoesNotMatch"


def test_a_signature_of_a_read_deletes_nothing(victim: Victim) -> None:
    for method in ("DELETE", "PUT"):
        answer = attempt(victim, lambda v, m=method: altered(v, "/private/k", sent_method=m))
        assert answer.code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("key", ["bob/secret/data/up.parquet", "alice/mine/data/up.parquet"])
@pytest.mark.parametrize(
    ("method", "query", "body"),
    [
        ("GET", "uploadId={id}", b""),
        ("PUT", "partNumber=1&uploadId={id}", b"mine"),
        ("PUT", "partNumber=2&uploadId={id}", b"mine"),
        ("DELETE", "uploadId={id}", b""),
        (
            "POST",
            "uploadId={id}",
            b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"
            + hashlib.md5(SECRET, usedforsecurity=False).hexdigest().encode()
            + b"</ETag></Part></CompleteMultipartUpload>",
        ),
    ],
)
def test_the_id_of_anothers_upload_is_of_no_use(
    victim: Victim, key: str, method: str, query: str, body: bytes
) -> None:
    """At bob's key alice has no right; at her own the id names no upload."""
    target = f"/lake/{key}?{query.format(id=victim.upload_id)}"
    answer = attempt(victim, lambda v: v.call("alice", method, target, None, body))
    assert answer.code == ("AccessDenied" if key.startswith("bob") else "NoSuchUpload")


TRICKS = (
    HOME,
    urllib.parse.quote(HOME, safe=""),
    HOME.replace("/", "%2F"),
    HOME.replace("b", "%62"),
    f"alice/mine/../../{HOME}",
    f"alice/mine/%2e%2e/%2e%2e/{HOME}",
    f"alice/mine/..%2F..%2F{HOME}",
    f"alice/mine/data/..%5C..%5C..%5C{HOME}",
    f"./{HOME}",
    f"/{HOME}",
    "bob//secret/data/f.parquet",
    "bob/./secret/data/f.parquet",
    "bob/secret/../secret/data/f.parquet",
    f"{HOME}/",
    f"{HOME}%00",
    f"{HOME}%23",
    f"{HOME};x",
    "bob%00/secret/data/f.parquet",
    "alice/mine%00/../../bob/secret/data/f.parquet",
    "b%C3%B6b/secret/data/f.parquet",
    "bob%EF%BC%8Fsecret/data/f.parquet",
)
"""Spellings of the key of bob's file, and keys that a careless server resolves to it."""


@pytest.mark.parametrize("key", TRICKS)
def test_no_spelling_of_a_path_reaches_a_neighbours_table(victim: Victim, key: str) -> None:
    for method, headers in (
        ("GET", {}),
        ("GET", {"range": "bytes=0-3"}),
        ("GET", {"x-amz-object-attributes": "ETag"}),
        ("DELETE", {}),
    ):
        query = "?attributes" if "x-amz-object-attributes" in headers else ""
        answer = victim.call("alice", method, f"/lake/{key}{query}", headers)
        # A key below her own table may exist or not: it is never bob's.
        assert answer.status in (204, 400, 403, 404, 405), answer
        assert answer.status != 204 or key.startswith("alice/")
        assert SECRET[:4] not in answer.body
    assert victim.state() == victim.before


@pytest.mark.parametrize("key", TRICKS)
def test_no_spelling_of_a_path_writes_into_a_neighbours_table(victim: Victim, key: str) -> None:
    victim.call("alice", "PUT", f"/lake/{key}", None, b"mine")
    victim.call("alice", "POST", f"/lake/{key}?uploads")
    assert victim.state() == victim.before


@pytest.mark.parametrize("source", [f"/lake/{key}" for key in TRICKS] + ["/private/k"])
def test_no_copy_takes_a_neighbours_file(victim: Victim, source: str) -> None:
    attempt(
        victim,
        lambda v: v.call(
            "alice", "PUT", "/lake/alice/mine/data/copy.parquet", {"x-amz-copy-source": source}
        ),
    )
    copied = victim.call("alice", "GET", "/lake/alice/mine/data/copy.parquet")
    assert copied.status == 404


def test_deleting_many_keys_deletes_none_of_a_neighbours(victim: Victim) -> None:
    keys = [urllib.parse.unquote(key) for key in TRICKS if "%00" not in key]
    body = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    data = f"<Delete>{body}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
    answer = victim.call("alice", "POST", "/lake?delete", {"content-md5": digest}, data)
    assert answer.status == 200
    deleted = answer.body.decode().split("<Deleted><Key>")[1:]
    assert all(each.startswith("alice/") for each in deleted)
    assert victim.state() == victim.before


@pytest.mark.parametrize("prefix", ["", "b", "bob", "bob/", "bob/secret/", "alice/../bob/", "/"])
def test_no_listing_shows_a_neighbours_keys(victim: Victim, prefix: str) -> None:
    for query in ("list-type=2&", "", "uploads&"):
        target = f"/lake?{query}prefix={urllib.parse.quote(prefix, safe='')}"
        answer = victim.call("alice", "GET", target)
        assert b"f.parquet" not in answer.body
        assert victim.upload_id.encode() not in answer.body


def test_credentials_for_one_table_open_no_other(victim: Victim) -> None:
    """The key pair that the catalog gives for alice's table, with her name and its token."""
    alice = dataclasses.replace(
        victim.place, access_key=users.access_key("alice"), secret_key=users.secret_key("alice")
    )
    catalog: Any = alice
    with rest.Client(catalog) as client:
        status, _, data = client.raw(
            "GET",
            "namespaces/alice/tables/mine",
            headers={"x-iceberg-access-delegation": "vended-credentials"},
        )
    assert status == 200
    credentials = json.loads(data)["config"]
    keys = {
        "access_key": credentials["s3.access-key-id"],
        "secret_key": credentials["s3.secret-access-key"],
    }
    token = {"x-amz-security-token": credentials["s3.session-token"]}
    inside = kit.call(victim.place, "PUT", "/lake/alice/mine/data/own.parquet", token, b"x", **keys)
    assert inside.status == 200
    for target in (f"/lake/{HOME}", "/private/k", "/lake/alice/mine2/data/x.parquet", "/lake", "/"):
        for headers in (token, {}):
            attempt(
                victim,
                lambda v, t=target, h=headers: kit.call(v.place, "GET", t, h, **keys),
            )
