"""Every field of every proof of identity, in header, query and form, with every kind of text that
is wrong in it: the answer is a refusal that can be read, never a 500 and never silence.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from xml.etree import ElementTree

import pytest

from server.auth import errors
from tests.kit import waits
from tests.server import requesting

WRONG = {
    "empty": b"",
    "euro": "\u20ac".encode(),
    "latin": "\u00e9".encode(),
    "not-utf8": b"\xe9\xff",
    "surrogate": b"\xed\xa0\x80",
    "no-xml-character": "\uffff".encode(),
    "astral": "\U0001f600".encode(),
    "zero": b"a\x00b",
    "control": b"a\x01\x1f\x7fb",
    "lines": b"a\r\nx-injected: 1\r\nb",
    "digits": "\u0664\u0662".encode(),
    "long": b"a" * 6000,
    "many-digits": b"9" * 5000,
    "slashes": b"////////",
    "semicolons": b"host;;a;\xe2\x82\xac;host",
    "percent": b"%",
    "signed-euro": b"host;\xe2\x82\xac",
    "signed-control": b"host;\x00;\x1f",
}
TARGETS = {
    "s3": ("/plain/key", "s3"),
    "s3tables": ("/buckets", "s3tables"),
    "iceberg": ("/iceberg/v1/config", "s3tables"),
    "native": ("/_metrics", "s3tables"),
    "sts": ("/", "sts"),
    "iam": ("/", "iam"),
    "snowflake": ("/session/v1/login-request", "s3"),
}
CREDENTIAL_PARTS = ("access_key", "date", "region", "service", "terminator")
V4_QUERY = (
    *(f"Credential:{part}" for part in CREDENTIAL_PARTS),
    "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders",
    "X-Amz-Signature", "X-Amz-Content-Sha256", "X-Amz-Security-Token",
)  # fmt: skip
V2_QUERY = (
    "AWSAccessKeyId", "Expires", "Signature", "x-amz-security-token", "x-amz-date", "versionId",
    "x-amz-meta-a", "content-type",
)  # fmt: skip
HEADERS = (
    *(f"Credential:{part}" for part in CREDENTIAL_PARTS),
    "Credential", "SignedHeaders", "Signature", "Algorithm", "authorization", "x-amz-date", "date",
    "x-amz-content-sha256", "x-amz-security-token", "x-amz-decoded-content-length",
    "x-amz-trailer", "content-md5", "expect", "range", "x-amz-meta-a", "if-none-match", "origin",
)  # fmt: skip


def now() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def credential(access_key: str, service: str, field: str, wrong: bytes) -> bytes:
    parts = {
        "access_key": access_key.encode(),
        "date": now()[:8].encode(),
        "region": b"us-east-1",
        "service": service.encode(),
        "terminator": b"aws4_request",
    }
    name = field.removeprefix("Credential:")
    if name in parts:
        parts[name] = wrong
    return b"/".join(parts.values())


def quoted(value: bytes) -> str:
    return urllib.parse.quote(value, safe="")


def v4_query(access_key: str, service: str, field: str, wrong: bytes) -> str:
    pairs = {
        "X-Amz-Algorithm": b"AWS4-HMAC-SHA256",
        "X-Amz-Credential": credential(access_key, service, field, wrong),
        "X-Amz-Date": now().encode(),
        "X-Amz-Expires": b"600",
        "X-Amz-SignedHeaders": b"host",
        "X-Amz-Signature": b"0" * 64,
    }
    if ":" not in field:
        pairs[field] = wrong
    return "&".join(f"{name}={quoted(value)}" for name, value in pairs.items())


def v2_query(access_key: str, field: str, wrong: bytes) -> str:
    pairs = {
        "AWSAccessKeyId": access_key.encode(),
        "Expires": str(int(time.time()) + 600).encode(),
        "Signature": b"c2lnbmF0dXJl",
    }
    pairs[field] = wrong
    return "&".join(f"{name}={quoted(value)}" for name, value in pairs.items())


def v4_headers(access_key: str, service: str, field: str, wrong: bytes) -> dict[str, bytes]:
    proof = {
        "Credential": credential(access_key, service, field, wrong),
        "SignedHeaders": b"host;x-amz-content-sha256;x-amz-date",
        "Signature": b"0" * 64,
    }
    headers = {"x-amz-date": now().encode(), "x-amz-content-sha256": b"UNSIGNED-PAYLOAD"}
    algorithm = b"AWS4-HMAC-SHA256"
    if field == "Algorithm":
        algorithm = b"AWS4-" + wrong
    elif field in proof:
        proof[field] = wrong
    elif ":" not in field:
        headers[field] = wrong
    said = b", ".join(name.encode() + b"=" + value for name, value in proof.items())
    return {"authorization": algorithm + b" " + said, **headers}


class Client:
    """One connection, opened anew when the server closed it."""

    def __init__(self, server) -> None:
        self._server = server
        self._connection = http.client.HTTPConnection(
            server.host, server.port, timeout=waits.WAIT_SECONDS
        )

    def ask(self, method: str, target: str, headers: dict[str, bytes]) -> tuple[int, bytes]:
        connection = self._connection
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            # As a client that checks nothing would send it; a line's end cannot be in a value.
            line = name.encode() + b": " + value.replace(b"\r", b" ").replace(b"\n", b" ")
            connection._output(line)
        connection.putheader("content-length", "0")
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        if answer.will_close:
            connection.close()
        return answer.status, body


def check(status: int, body: bytes, what: tuple[object, ...]) -> None:
    assert 400 <= status < 500, (what, status, body[:300])
    if body.startswith(b"<"):
        ElementTree.fromstring(body)
    elif body.startswith(b"{"):
        json.loads(body)
    else:
        assert status in (400, 431), (what, status, body[:300])


@pytest.mark.parametrize("face", TARGETS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_version_4_query_with_one_wrong_field_is_refused(server, face, method):
    path, service = TARGETS[face]
    client = Client(server)
    for access_key in (server.access_key, "AKIAUNKNOWN"):
        for field in V4_QUERY:
            for name, wrong in WRONG.items():
                query = v4_query(access_key, service, field, wrong)
                status, body = client.ask(method, f"{path}?{query}", {})
                if face == "snowflake" and status == 200:
                    continue  # its logins carry their own credentials and answer in JSON
                check(status, body, (face, field, name))


def test_a_version_2_query_with_one_wrong_field_is_refused(server):
    client = Client(server)
    for access_key in (server.access_key, "AKIAUNKNOWN"):
        for field in V2_QUERY:
            for name, wrong in WRONG.items():
                query = v2_query(access_key, field, wrong)
                check(*client.ask("GET", f"/plain/key?{query}", {}), (field, name))


@pytest.mark.parametrize("face", TARGETS)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_version_4_headers_with_one_wrong_field_are_refused(server, face, method):
    path, service = TARGETS[face]
    client = Client(server)
    for access_key in (server.access_key, "AKIAUNKNOWN"):
        for field in HEADERS:
            for name, wrong in WRONG.items():
                headers = v4_headers(access_key, service, field, wrong)
                check(*client.ask(method, path, headers), (face, field, name))


@pytest.mark.parametrize("path", ["/plain/key", "/iceberg/v1/config", "/_metrics", "/buckets"])
def test_other_proofs_with_wrong_text_are_refused(server, path):
    client = Client(server)
    for scheme in (b"Bearer ", b"Basic ", b"AWS ", b"AWS AKIA:", b"Snowflake Token=", b""):
        for name, wrong in WRONG.items():
            for header in ("authorization", "original-authorization"):
                if not scheme + wrong and header == "authorization":
                    continue
                answer = client.ask("GET", path, {header: scheme + wrong})
                check(*answer, (path, scheme, header, name))


FORM = {
    "key": "a",
    "policy": "e30=",
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": f"{requesting.ACCESS_KEY}/20251121/us-east-1/s3/aws4_request",
    "x-amz-date": "20251121T160000Z",
    "x-amz-signature": "0" * 64,
}
FORM_V2 = {"policy": "e30=", "awsaccesskeyid": requesting.ACCESS_KEY, "signature": "eA=="}


@pytest.mark.parametrize("form", [FORM, FORM_V2])
def test_a_form_with_one_wrong_field_is_refused(form):
    checker = requesting.verifier()
    for field in (*form, "x-amz-security-token", "bucket", "acl"):
        for wrong in WRONG.values():
            text = wrong.decode("utf-8", "replace")
            with pytest.raises(errors.AuthError):
                checker.verify_post(requesting.request("POST"), {**form, field: text})
