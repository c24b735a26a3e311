"""rule: one access record as a line of text, in the format of Amazon S3's server access logs.

Fields are separated by spaces; a field that is unknown is `-`. What a client sent is escaped, so
that no request forges a field or a line, and what signs a URL is left out. Source: Amazon S3 user
guide, "Amazon S3 server access log format".
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "-"
URI_CHARACTERS_MAX: Final = 4096
TEXT_CHARACTERS_MAX: Final = 1024
"""The longest request URI, and the longest text of a header, in a line; the rest is cut."""
KEY_SAFE: Final = "/~"

_UNSAFE: Final = re.compile(r"[^\x21\x23-\x7e]")
_UNSAFE_QUOTED: Final = re.compile(r"[^\x20\x21\x23-\x7e]")
_SECRETS: Final = frozenset({b"x-amz-signature", b"x-amz-security-token", b"signature"})
"""Parameters whose values sign a URL, in lower case."""
_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,128})</Code>|\"type\":\"([A-Za-z0-9.]{1,128})\"")


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRecord:
    """One request. requester: a canonical id or an ARN; empty for an anonymous caller.

    raw_path, query: as received. object_size: None if it is unknown. signature: `SigV4`, `SigV2` or
    empty; authentication: `AuthHeader`, `QueryString` or empty.
    """

    owner_id: str
    bucket: str
    at_ms: int
    client_ip: str
    requester: str
    request_id: str
    operation: str
    key: str
    method: str
    raw_path: bytes
    query: bytes
    status: int
    error: str
    sent_bytes: int
    object_size: int | None
    total_ms: int
    referer: str
    user_agent: str
    version_id: str
    host_id: str
    signature: str
    authentication: str
    host: str


def format_line(record: AccessRecord) -> bytes:
    """Return a record's line, with its newline."""
    moment = datetime.fromtimestamp(record.at_ms / 1000, UTC)
    fields = (
        record.owner_id or UNKNOWN,
        record.bucket,
        f"[{moment.day:02d}/{_MONTHS[moment.month - 1]}/{moment:%Y:%H:%M:%S} +0000]",
        _word(record.client_ip),
        _word(record.requester),
        record.request_id,
        record.operation,
        urllib.parse.quote(record.key, safe=KEY_SAFE, errors="surrogateescape") or UNKNOWN,
        f'"{record.method} {_uri(record.raw_path, record.query)} HTTP/1.1"',
        str(record.status),
        record.error or UNKNOWN,
        str(record.sent_bytes) if record.sent_bytes else UNKNOWN,
        UNKNOWN if record.object_size is None else str(record.object_size),
        str(record.total_ms),
        UNKNOWN,  # the turn-around time is not measured
        _quoted(_unsigned(record.referer)),
        _quoted(record.user_agent),
        _word(record.version_id),
        record.host_id or UNKNOWN,
        record.signature or UNKNOWN,
        UNKNOWN,  # the cipher suite is the transport's
        record.authentication or UNKNOWN,
        _word(record.host),
        UNKNOWN,  # the version of TLS
        UNKNOWN,  # there are no access points
        UNKNOWN,  # whether an access control list was needed is not measured
        UNKNOWN,  # the client's region is unknown
    )
    return (" ".join(fields) + "\n").encode("ascii")


def find_code(body: bytes) -> str:
    """Return the error code in an S3 or an Iceberg error document; empty if there is none."""
    match = _CODE.search(body)
    return "" if match is None else (match[1] or match[2]).decode()


def _uri(raw_path: bytes, query: bytes) -> str:
    target = raw_path
    if query:
        target += b"?" + _redacted(query)
    return _escape(target.decode("latin-1")[:URI_CHARACTERS_MAX], _UNSAFE)


def _unsigned(url: str) -> str:
    """Return a URL without what signs it: a page at a presigned URL sends that as its referer."""
    path, mark, query = url.partition("?")
    if not mark:
        return url
    return f"{path}?{_redacted(query.encode('latin-1', 'replace')).decode('latin-1')}"


def _redacted(query: bytes) -> bytes:
    """Return a query without the values that sign it, however their names are escaped."""
    pairs = []
    for pair in query.split(b"&"):
        name, equals, _ = pair.partition(b"=")
        is_secret = urllib.parse.unquote_to_bytes(name).lower() in _SECRETS
        pairs.append(name + b"=REDACTED" if equals and is_secret else pair)
    return b"&".join(pairs)


def _word(text: str) -> str:
    return _escape(text[:TEXT_CHARACTERS_MAX], _UNSAFE) or UNKNOWN


def _quoted(text: str) -> str:
    return f'"{_escape(text[:TEXT_CHARACTERS_MAX], _UNSAFE_QUOTED) or UNKNOWN}"'


def _escape(text: str, unsafe: re.Pattern[str]) -> str:
    """Return text with every unsafe character percent-encoded. text: Latin-1, or any other."""
    return unsafe.sub(lambda match: urllib.parse.quote(match[0].encode("latin-1", "replace")), text)


_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
