"""rule: which S3 requests the catalog signs for a client, and their signatures.

A request is signed for one table: an object below the table's location, a page of a listing below
it, or a deletion of such objects. Everything else is refused: other buckets, hosts and operations,
parameters and headers that change an operation's meaning, and paths with more than one reading.
The keys that sign are those that would be vended for the table, so that S3 checks the same scope,
and the caller's rights, when the request arrives.
Source: Iceberg REST catalog specification, signRequest.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.metadata import json_values
from catalog.rest import errors
from server import errors as kit_errors
from server.auth import sigv4
from server.s3 import documents
from server.s3 import errors as s3_errors

URI_CHARACTERS_MAX: Final = 8 * 1024
HEADERS_MAX: Final = 100
HEADER_VALUES_MAX: Final = 16
HEADER_CHARACTERS_MAX: Final = 8 * 1024

ON_OBJECTS: Final[Mapping[str, tuple[tuple[frozenset[str], frozenset[str]], ...]]] = {
    "GET": (
        (
            frozenset(),
            frozenset(
                {
                    "partNumber",
                    "response-cache-control",
                    "response-content-disposition",
                    "response-content-encoding",
                    "response-content-language",
                    "response-content-type",
                    "response-expires",
                }
            ),
        ),
    ),
    "HEAD": ((frozenset(), frozenset({"partNumber"})),),
    "PUT": (
        (frozenset(), frozenset()),
        (frozenset({"partNumber", "uploadId"}), frozenset()),
    ),
    "POST": (
        (frozenset({"uploads"}), frozenset()),
        (frozenset({"uploadId"}), frozenset()),
    ),
    "DELETE": (
        (frozenset(), frozenset()),
        (frozenset({"uploadId"}), frozenset()),
    ),
}
"""Method -> the parameters that an operation on an object needs, and those that it may have."""
ON_LISTINGS: Final = (
    frozenset({"list-type", "prefix"}),
    frozenset(
        {
            "continuation-token",
            "delimiter",
            "encoding-type",
            "fetch-owner",
            "max-keys",
            "start-after",
        }
    ),
)
"""The parameters that a listing (ListObjectsV2) needs, and those that it may have."""
ANYWHERE: Final = frozenset({"x-id"})
"""Parameters without a meaning: SDKs add the operation's name."""
READS: Final = frozenset({"GET", "HEAD"})

AMZ_HEADERS: Final = frozenset(
    {
        "x-amz-checksum-algorithm",
        "x-amz-checksum-mode",
        "x-amz-checksum-type",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-mp-object-size",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-storage-class",
        "x-amz-te",
        "x-amz-trailer",
        "x-amz-user-agent",
    }
)
AMZ_PREFIXES: Final = ("x-amz-checksum-", "x-amz-meta-")
"""The headers of S3 that are signed. All others would change what an operation does."""
REFUSED_HEADERS: Final = frozenset({"authorization"})
REPLACED_HEADERS: Final = frozenset({"x-amz-date"})
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
UNSIGNED_STREAM: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
"""A body whose checksum comes after it. Streams of signed chunks need the client's own key."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_URI: Final = re.compile(r"[!$&'()*+,\-./0-9:;=?@A-Z_a-z~%]*")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class SignRequest:
    """A client's request for a signature. headers: by lower-case name, values joined."""

    method: str
    uri: str
    headers: Mapping[str, str]
    body: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Signable:
    """A request that is about one table's files alone. writes: it needs the right to write."""

    method: str
    path: bytes
    query: bytes
    host: str
    headers: Mapping[str, str]
    payload_hash: str
    writes: bool


def parse(values: Mapping[str, Any]) -> SignRequest:
    """Return the request in a body. Raises BadUpdate, MalformedJson, SigningRefused."""
    provider = values.get("provider")
    if provider not in (None, "s3"):
        raise errors.SigningRefused(
            f"Requests of the provider {str(provider)[:100]} are not signed"
        )
    json_values.get_text(values, "region")
    body = values.get("body")
    if body is not None and not isinstance(body, str):
        raise errors.MalformedJson("Cannot parse to a string value: body")
    headers: dict[str, str] = {}
    listed = json_values.get_object(values, "headers")
    if len(listed) > HEADERS_MAX:
        raise errors.MalformedJson(f"Malformed request: more than {HEADERS_MAX} headers")
    for name, texts in listed.items():
        folded = name.lower()
        if folded in headers or not _HEADER_NAME.fullmatch(folded):
            raise errors.MalformedJson(f"Malformed request: the header {name[:100]!r}")
        if not isinstance(texts, list) or len(texts) > HEADER_VALUES_MAX:
            raise errors.MalformedJson(f"Cannot parse to a list of strings: {folded[:100]}")
        headers[folded] = ",".join(_check_value(folded, text) for text in texts)
    return SignRequest(
        method=json_values.get_text(values, "method"),
        uri=json_values.get_text(values, "uri"),
        headers=headers,
        body=body,
    )


def check(request: SignRequest, *, origin: str, location: str) -> Signable:
    """Return a request that may be signed for a table. Raises SigningRefused.

    origin: the server's, as the client reaches it. location: the table's, `s3://bucket/path`.
    """
    bucket, _, path = location.removeprefix("s3://").partition("/")
    if not path or any(sign in location for sign in "*?"):
        raise errors.SigningRefused("Nothing is signed for a location like this table's")
    below = path + "/"
    if not _METHOD.fullmatch(request.method):
        raise errors.SigningRefused("Not the method of an S3 request")
    host, raw_path, query = _split_uri(request.uri, origin)
    segments = _decode_path(raw_path)
    if segments[0] != bucket:
        raise errors.SigningRefused(f"Only requests for the bucket {bucket} are signed")
    parameters = _parse_query(query)
    _check_headers(request.headers, host)
    key = "/".join(segments[1:])
    if key:
        return _on_object(request, key, below, host, raw_path, query, parameters)
    return _on_bucket(request, below, host, raw_path, query, parameters)


def first_key(request: SignRequest, *, origin: str) -> tuple[str, str]:
    """Return the bucket that a request is for, and the first key or the prefix that it names.

    The key is empty if the request names none. Nothing else is checked. Raises SigningRefused.
    """
    _, raw_path, query = _split_uri(request.uri, origin)
    bucket, *rest = _decode_path(raw_path)
    key = "/".join(rest)
    parameters = _parse_query(query)
    if not key and request.method == "GET":
        key = parameters.get("prefix", "")
    elif not key and "delete" in parameters:
        _, targets = _parse_deletion(request)
        key = targets[0].key if targets else ""
    return bucket, key


def sign(
    request: Signable,
    *,
    access_key: str,
    secret_key: str,
    session_token: str,
    region: str,
    now_ms: int,
) -> dict[str, str]:
    """Return the headers that a client adds to a request, its signature among them."""
    timestamp = sigv4.format_timestamp(now_ms)
    added = {
        "x-amz-content-sha256": request.payload_hash,
        "x-amz-date": timestamp,
        "x-amz-security-token": session_token,
    }
    signed = {
        "host": request.host,
        **{name: text for name, text in request.headers.items() if name.startswith("x-amz-")},
        **added,
    }
    names = tuple(sorted(signed))
    credential = sigv4.Credential(
        access_key=access_key, date=timestamp[:8], region=region, service="s3"
    )
    encoded = {name.encode(): text.encode("latin-1") for name, text in signed.items()}
    encoded_names = tuple(name.encode() for name in names)
    canonical = sigv4.canonical_request(
        method=request.method,
        path=sigv4.canonical_path(request.path, double_encoded=False),
        query=sigv4.canonical_query(request.query),
        headers=sigv4.canonical_headers(encoded, encoded_names),
        names=encoded_names,
        payload_hash=request.payload_hash,
    )
    key = sigv4.signing_key(secret_key, date=credential.date, region=region, service="s3")
    signature = sigv4.sign(key, sigv4.string_to_sign(timestamp, credential.scope, canonical))
    authorization = (
        f"{sigv4.ALGORITHM} Credential={access_key}/{credential.scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    # A client that has a header would send it twice if it came back.
    new = {name: text for name, text in added.items() if name not in request.headers}
    return {**new, "Authorization": authorization}


def _check_value(name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise errors.MalformedJson(f"Cannot parse to a list of strings: {name[:100]}")
    if len(text) > HEADER_CHARACTERS_MAX or not _HEADER_VALUE.fullmatch(text):
        raise errors.MalformedJson(f"Malformed request: the value of the header {name[:100]}")
    return text


def _split_uri(uri: str, origin: str) -> tuple[str, bytes, bytes]:
    """Return host, raw path and raw query of a URI of this server."""
    if len(uri) > URI_CHARACTERS_MAX or not _URI.fullmatch(uri) or _ESCAPE.search(uri):
        raise errors.SigningRefused("The URI is not one of an S3 request")
    scheme, separator, rest = uri.partition("://")
    authority, slash, target = rest.partition("/")
    own_scheme, _, own_authority = origin.partition("://")
    if (
        not separator
        or not slash
        or scheme.lower() != own_scheme
        or _without_default_port(authority, own_scheme)
        != _without_default_port(own_authority, own_scheme)
    ):
        raise errors.SigningRefused(f"Only requests to {origin} are signed")
    path, _, query = target.partition("?")
    if "?" in query:
        raise errors.SigningRefused("The URI is not one of an S3 request")
    host = _without_default_port(authority, own_scheme)
    return host, b"/" + path.encode("ascii"), query.encode("ascii")


def _without_default_port(authority: str, scheme: str) -> str:
    port = ":443" if scheme == "https" else ":80"
    return authority.lower().removesuffix(port)


def _decode_path(raw_path: bytes) -> list[str]:
    """Return a path's segments, each decoded once. Raises SigningRefused for one that a client, a
    proxy or the server could read as another path."""
    segments = []
    raw_segments = raw_path.removeprefix(b"/").split(b"/")
    for number, raw in enumerate(raw_segments):
        try:
            segment = urllib.parse.unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            raise errors.SigningRefused("The path of the URI is not UTF-8") from None
        is_after_bucket = number == 1 and len(raw_segments) == 2
        if (
            segment in (".", "..")
            or (not segment and not is_after_bucket)
            or any(sign in segment for sign in "/\\")
            or any(ord(sign) < 32 or ord(sign) == 127 for sign in segment)
        ):
            raise errors.SigningRefused("The path of the URI has more than one reading")
        segments.append(segment)
    return segments


def _parse_query(query: bytes) -> dict[str, str]:
    """Return the parameters of a query. Raises SigningRefused for one that is there twice."""
    parameters: dict[str, str] = {}
    for part in query.split(b"&") if query else ():
        name, _, value = (urllib.parse.unquote_plus(each.decode()) for each in _halves(part))
        if not name or name in parameters or "�" in name + value:
            raise errors.SigningRefused("The query of the URI has more than one reading")
        parameters[name] = value
    return parameters


def _halves(part: bytes) -> tuple[bytes, bytes, bytes]:
    return part.partition(b"=")


def _check_headers(headers: Mapping[str, str], host: str) -> None:
    """Raise SigningRefused for headers that change what a request does, or to whom it goes."""
    sent_host = headers.get("host")
    if sent_host is not None and sent_host.lower() != host:
        raise errors.SigningRefused(f"The header host is not {host}")
    for name in headers:
        if name in REFUSED_HEADERS or (
            name.startswith("x-amz-")
            and name not in AMZ_HEADERS
            and not name.startswith(AMZ_PREFIXES)
        ):
            raise errors.SigningRefused(f"Requests with the header {name[:100]} are not signed")


def _on_object(
    request: SignRequest,
    key: str,
    below: str,
    host: str,
    raw_path: bytes,
    query: bytes,
    parameters: Mapping[str, str],
) -> Signable:
    _check_key(key, below)
    names = parameters.keys() - ANYWHERE
    operations = ON_OBJECTS.get(request.method, ())
    if not any(needed <= names <= needed | optional for needed, optional in operations):
        raise errors.SigningRefused("Requests for this operation are not signed")
    return Signable(
        method=request.method,
        path=raw_path,
        query=query,
        host=host,
        headers=_without_replaced(request.headers),
        payload_hash=_payload_hash(request.headers),
        writes=request.method not in READS,
    )


def _on_bucket(
    request: SignRequest,
    below: str,
    host: str,
    raw_path: bytes,
    query: bytes,
    parameters: Mapping[str, str],
) -> Signable:
    """Return a listing below a table's location, or a deletion of objects there."""
    names = parameters.keys() - ANYWHERE
    headers = _without_replaced(request.headers)
    needed, optional = ON_LISTINGS
    if request.method == "GET" and needed <= names <= needed | optional:
        if parameters["list-type"] != "2" or not parameters["prefix"].startswith(below):
            raise errors.SigningRefused(f"Only listings below {below} are signed")
        payload_hash, writes = _payload_hash(headers), False
    elif request.method == "POST" and names == {"delete"}:
        payload_hash, writes = _check_deletion(request, below), True
    else:
        raise errors.SigningRefused("Requests for this operation are not signed")
    return Signable(
        method=request.method,
        path=raw_path,
        query=query,
        host=host,
        headers=headers,
        payload_hash=payload_hash,
        writes=writes,
    )


def _check_deletion(request: SignRequest, below: str) -> str:
    """Return the hash of a body that deletes objects of the table alone: no other can be sent."""
    data, targets = _parse_deletion(request)
    for target in targets:
        _check_key(target.key, below)
    payload_hash = hashlib.sha256(data).hexdigest()
    if request.headers.get("x-amz-content-sha256", payload_hash) != payload_hash:
        raise errors.SigningRefused("The header x-amz-content-sha256 is not the hash of the body")
    return payload_hash


def _parse_deletion(request: SignRequest) -> tuple[bytes, Sequence[documents.ObjectToDelete]]:
    """Return the body of a deletion of several objects, and its targets. Raises SigningRefused."""
    if request.body is None:
        raise errors.SigningRefused("A deletion of several objects is signed with its body")
    data = request.body.encode("utf-8", "surrogatepass")
    try:
        return data, documents.parse_deletes(data).targets
    except (kit_errors.KitError, s3_errors.S3Error) as error:
        raise errors.SigningRefused(f"The body is no deletion of objects: {error}") from None


def _check_key(key: str, below: str) -> None:
    """Raise SigningRefused unless a key is strictly below a table's location."""
    if not key.startswith(below) or len(key) == len(below):
        raise errors.SigningRefused(f"Only requests for objects below {below} are signed")


def _payload_hash(headers: Mapping[str, str]) -> str:
    """Return what the signature says about a body. Raises SigningRefused."""
    sent = headers.get("x-amz-content-sha256", UNSIGNED)
    if sent not in (UNSIGNED, UNSIGNED_STREAM) and not _SHA256.fullmatch(sent):
        raise errors.SigningRefused(f"Bodies with {sent[:100]} are not signed")
    return sent


def _without_replaced(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name not in REPLACED_HEADERS}
