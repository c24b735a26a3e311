"""rule: AWS Signature Version 2 of S3: HMAC-SHA1 of method, dates, headers and resource.

boto3 and awscli still presign with it on a custom endpoint. The resource is the raw path of the
request, after the bucket if the Host names it, plus the query parameters that select a
sub-resource. Source: Amazon S3 API reference, "Signing and authenticating REST requests
(signature version 2)".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from server.auth import errors, sigv4

SUBRESOURCES: Final = frozenset(
    {
        b"accelerate", b"acl", b"analytics", b"cors", b"defaultObjectAcl", b"delete", b"encryption",
        b"intelligent-tiering", b"inventory", b"legal-hold", b"lifecycle", b"location",
        b"logging", b"metrics", b"notification",
        b"object-lock", b"ownershipControls", b"partNumber", b"policy", b"policyStatus",
        b"publicAccessBlock", b"replication", b"requestPayment", b"response-cache-control",
        b"response-content-disposition", b"response-content-encoding",
        b"response-content-language", b"response-content-type", b"response-expires", b"restore",
        b"retention", b"select", b"select-type", b"storageClass", b"tagging", b"torrent",
        b"uploadId", b"uploads", b"versionId", b"versioning", b"versions", b"website",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SigV2Proof:
    """A parsed `AWS KEY:SIGNATURE` header."""

    access_key: str
    signature: str


def parse_authorization(text: str) -> SigV2Proof:
    """Parse an Authorization header of this scheme. Raises MalformedV2Authorization."""
    access_key, colon, signature = text.removeprefix("AWS ").strip().rpartition(":")
    if not colon or not access_key or not signature:
        raise errors.MalformedV2Authorization(
            "AWS authorization header is invalid. Expected AwsAccessKeyId:signature"
        )
    return SigV2Proof(access_key=access_key, signature=signature)


def string_to_sign(
    *,
    method: str,
    raw_path: bytes,
    query: bytes,
    headers: sigv4.RawHeaders,
    bucket_of_host: str | None,
    expires: str | None,
) -> bytes:
    """Return the string to sign.

    expires: the Expires parameter of a presigned request, which replaces the Date. Such a request
    may have its x-amz- headers, Content-MD5 and Content-Type in the query instead.
    """
    signed_headers: dict[bytes, bytes] = {}
    for name, value in headers:
        if name.startswith(b"x-amz-") or name in (b"content-md5", b"content-type", b"date"):
            value = b" ".join(value.split())
            signed_headers[name] = (
                signed_headers[name] + b"," + value if name in signed_headers else value
            )
    if expires is not None:
        for parameter, meant in _meant(query):
            name = parameter.lower()
            if name.startswith(b"x-amz-") or name in (b"content-md5", b"content-type"):
                signed_headers.setdefault(name, meant or b"")
    if expires is not None:
        date = expires.encode()
    elif b"x-amz-date" in signed_headers:
        date = b""
    else:
        date = signed_headers.get(b"date", b"")
    lines = [
        method.encode(),
        signed_headers.get(b"content-md5", b""),
        signed_headers.get(b"content-type", b""),
        date,
    ]
    lines += [
        b"%s:%s" % (name, signed_headers[name])
        for name in sorted(signed_headers)
        if name[:6] == b"x-amz-"
    ]
    lines.append(canonical_resource(raw_path, query, bucket_of_host))
    return b"\n".join(lines)


def resources_of(raw_path: bytes, bucket_of_host: str | None) -> tuple[bytes, ...]:
    """Return the paths that a client may have signed for a request: the path as sent, and for a
    bucket also the path with a slash at its end, as botocore signs it (its `authPath`)."""
    if bucket_of_host is None and len(raw_path) > 1 and b"/" not in raw_path[1:]:
        return raw_path, raw_path + b"/"
    return (raw_path,)


def queries_of(query: bytes) -> tuple[bytes, ...]:
    """Return the queries that a client may have signed for a request: the query as sent, and that
    without the equals signs of empty values, since minio-go sends `uploads=` and signs `uploads`.
    """
    bare = b"&".join(
        [part[:-1] if part.find(b"=") == len(part) - 1 else part for part in query.split(b"&")]
    )
    return (query,) if bare == query else (query, bare)


def canonical_resource(raw_path: bytes, query: bytes, bucket_of_host: str | None) -> bytes:
    """Return the resource: bucket and path as sent, and the sub-resources, sorted."""
    resource = raw_path or b"/"
    if bucket_of_host is not None:
        resource = b"/" + bucket_of_host.encode() + resource
    chosen = []
    for name, value in _meant(query):
        if name in SUBRESOURCES:
            chosen.append((name, b"" if value is None else b"=" + value))
    if chosen:
        chosen.sort(key=lambda pair: pair[0])
        resource += b"?" + b"&".join([name + value for name, value in chosen])
    return resource


def sign(secret_key: str, text: bytes) -> str:
    """Return the signature, base64."""
    return base64.b64encode(hmac.new(secret_key.encode(), text, hashlib.sha1).digest()).decode()


def _meant(query: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield names and values of a query, decoded; None for a name without an equals sign.

    Names are decoded because the request's parser decodes them: `%74agging` must not be a
    sub-resource there but not here.
    """
    for part in query.split(b"&"):
        name, equals, value = part.replace(b"+", b" ").partition(b"=")
        yield (
            urllib.parse.unquote_to_bytes(name),
            urllib.parse.unquote_to_bytes(value) if equals else None,
        )
