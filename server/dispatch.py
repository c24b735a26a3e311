"""rule: the face of a request.

Chosen from the raw path, the Host and the service in a SigV4 credential scope; the first row that
matches decides. The path alone is not enough: `PUT /buckets` is S3's CreateBucket and s3tables'
CreateTableBucket. Prefixes are compared as whole first segments, still percent-encoded, so the
bucket `sessions-eu` is a bucket. The method decides for the path `/` alone. Never looks at a body.
"""

from __future__ import annotations

import functools
import re
import urllib.parse
from collections.abc import Mapping
from typing import Final

S3: Final = "s3"
S3TABLES: Final = "s3tables"
STS: Final = "sts"
IAM: Final = "iam"
ICEBERG: Final = "iceberg"
SNOWFLAKE: Final = "snowflake"
NATIVE: Final = "native"

FACES: Final = (S3, S3TABLES, STS, IAM, ICEBERG, SNOWFLAKE, NATIVE)

FACE_OF_SERVICE: Final = {"s3": S3, "sts": STS, "iam": IAM}
FACE_OF_FIRST_SEGMENT: Final = {
    b"iceberg": ICEBERG,
    b"v1": ICEBERG,  # of a client whose URI lacks `/iceberg`; a bucket's name has three characters
    b"session": SNOWFLAKE,
    b"queries": SNOWFLAKE,
    b"monitoring": SNOWFLAKE,
    b"telemetry": SNOWFLAKE,
    b"_console": NATIVE,
    b"_api": NATIVE,
    b"_health": NATIVE,
    b"_metrics": NATIVE,
}
CREDENTIALS_REMEMBERED_MAX: Final = 256
CREDENTIAL_BYTES_MAX: Final = 256
"""Cached services of credentials: all requests of a key and a day have the same one."""
LOCAL_DOMAIN: Final = "localhost"

_BUCKET_LABEL: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_SLASHES: Final = re.compile(rb"//+")


def face_of(
    raw_path: bytes, host: str, service: str | None, *, domain: str | None, method: str = ""
) -> str:
    """Return the name of the request's face.

    raw_path: percent-encoded, without query. host: the Host header, with or without a port.
    service: the result of `service_of`. domain: the configured one for virtual-hosted buckets.
    method: S3 has no POST of the path `/`; an unsigned one is AssumeRoleWithWebIdentity's.
    """
    face = FACE_OF_SERVICE.get(service or "")
    if face == S3 or bucket_of_host(host, domain) is not None:
        return S3
    first = raw_path[1:].partition(b"/")[0]
    if service == S3TABLES and FACE_OF_FIRST_SEGMENT.get(first) != ICEBERG:
        return S3TABLES
    if face is not None:
        return face
    if method == "POST" and raw_path in (b"/", b"") and service is None:
        return STS
    return FACE_OF_FIRST_SEGMENT.get(first, S3)


def face_of_head(
    raw_path: bytes,
    query: bytes,
    headers: Mapping[bytes, bytes],
    *,
    domain: str | None,
    method: str = "",
) -> str:
    """Return what `face_of` returns, from a head. headers: by lower-case name."""
    authorization = headers.get(b"authorization")
    service = None
    if authorization is not None or query:
        service = service_of(
            None if authorization is None else authorization.decode("latin-1"), query
        )
        if FACE_OF_SERVICE.get(service or "") == S3:
            return S3  # whatever the host is
    host = headers.get(b"host", b"").decode("latin-1")
    return face_of(raw_path, host, service, domain=domain, method=method)


def bucket_of_host(host: str, domain: str | None) -> str | None:
    """Return the bucket of a virtual-hosted Host, or None."""
    name = host.partition(":")[0]
    if name == LOCAL_DOMAIN or name.rpartition(".")[2].isdigit():
        return None  # most requests: the plain host, or an address
    name = name.lower().removesuffix(".")
    for suffix in (LOCAL_DOMAIN, domain):
        if suffix and name.endswith(suffix) and name[-len(suffix) - 1 : -len(suffix)] == ".":
            bucket = name[: -len(suffix) - 1]
            if _BUCKET_LABEL.fullmatch(bucket):
                return bucket
    return None


def service_of(authorization: str | None, query: bytes) -> str | None:
    """Return the service in the credential scope, of the header or the query.

    A scope is `ACCESS-KEY/DATE/REGION/SERVICE/aws4_request`. None for other authentication
    schemes, and for a scope too short to have a service.
    """
    if authorization is not None and authorization.startswith("AWS4-"):
        first = authorization.partition(",")[0]
        if len(first) <= CREDENTIAL_BYTES_MAX and "Credential=" in first:
            return _remembered_service_of_header(first)
        return _service_of_header(authorization)
    elif b"X-Amz-Credential=" in query:
        value = (b"&" + query).partition(b"&X-Amz-Credential=")[2].partition(b"&")[0]
        if len(value) > CREDENTIAL_BYTES_MAX:
            return _service_of_value(value)
        return _remembered_service(value)
    else:
        return None


def _service_of_header(authorization: str) -> str | None:
    """Return the service of the credential in a header, or in the first of its fields."""
    return _service_of_credential(authorization.partition("Credential=")[2].partition(",")[0])


_remembered_service_of_header = functools.lru_cache(CREDENTIALS_REMEMBERED_MAX)(_service_of_header)


def _service_of_value(value: bytes) -> str | None:
    """Return the service of a percent-encoded credential."""
    return _service_of_credential(urllib.parse.unquote_to_bytes(value).decode("latin-1"))


_remembered_service = functools.lru_cache(CREDENTIALS_REMEMBERED_MAX)(_service_of_value)


def _service_of_credential(credential: str) -> str | None:
    parts = credential.strip().rsplit("/", 2)
    return parts[1] if len(parts) == 3 else None


def path_for(face: str, raw_path: bytes) -> bytes:
    """Return the path in a face's form.

    Double slashes are significant, except for the Snowflake face: its drivers append a path to a
    base that already ends in a slash (`/monitoring/queries//id`).
    """
    if face == SNOWFLAKE and b"//" in raw_path:
        return _SLASHES.sub(b"/", raw_path)
    return raw_path
