"""rule: AWS Signature Version 4: parsing and verification.

Canonical forms are computed from the raw bytes of the request: each path segment and query part is
decoded once and encoded again, so two spellings of one request have one signature, and an encoded
slash differs from a slash. For services other than S3 the path as sent is encoded a second time.
Dot segments are not resolved and double slashes are not joined: a client that does so before it
signs gets SignatureDoesNotMatch.
Source: IAM user guide, "Create a signed AWS API request".
"""

from __future__ import annotations

import calendar
import email.utils
import hashlib
import hmac
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from server import limits
from server.auth import errors

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]

_TIMESTAMP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_ESCAPE: Final = rb"%(?:2[0-9A-CF]|3[A-F]|40)"
"""Escapes of ASCII's punctuation below the letters but for `-` and `.`, which are not escaped, as a
canonical form has them: a presigned URL has `%2F`, keys of Hive `%3D`."""
_PLAIN_PATH: Final = re.compile(
    rb"[A-Za-z0-9/_.~-]*(?:" + _ESCAPE + rb"[A-Za-z0-9/_.~-]*)*",
)
_PLAIN_QUERY: Final = re.compile(
    rb"[A-Za-z0-9_.~=&-]*(?:" + _ESCAPE + rb"[A-Za-z0-9_.~=&-]*)*",
)
"""Paths and queries whose parts are in their canonical form already."""
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_BLOCK_BYTES: Final = 64
_PAIR: Final = re.compile(r"([A-Za-z]+)=(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """An access key, and the scope of its signature."""

    access_key: str
    date: str
    region: str
    service: str

    @property
    def scope(self) -> str:
        """The scope as the string to sign spells it."""
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The credential of a signature, and the headers that it covers.

    names: signed_headers as sent. covered: the same names as a set.
    """

    credential: Credential
    signed_headers: tuple[str, ...]
    names: tuple[bytes, ...]
    covered: frozenset[bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The signature of a request, parsed."""

    claim: Claim
    signature: str


def make_claim(credential: Credential, signed_headers: tuple[str, ...]) -> Claim:
    """Return the claim of a credential over some headers."""
    names = tuple(name.encode("latin-1") for name in signed_headers)
    return Claim(
        credential=credential,
        signed_headers=signed_headers,
        names=names,
        covered=frozenset(names),
    )


def parse_authorization(text: str) -> Proof:
    """Parse an Authorization header of this scheme. Raises AuthError."""
    scheme, _, rest = text.partition(" ")
    if scheme != ALGORITHM:
        raise errors.UnsupportedAuthorization(f"{scheme} is not supported", scheme=scheme)
    fields: dict[str, str] = {}
    for part in rest.split(","):
        match = _PAIR.fullmatch(part.strip())
        if match is None or match[1] in fields:
            raise _malformed("the Authorization header is not a list of name=value")
        fields[match[1]] = match[2]
    for name in ("Credential", "SignedHeaders", "Signature"):
        if not fields.get(name):
            raise _malformed(f"the Authorization header has no {name}")
    claim = make_claim(
        parse_credential(fields["Credential"]), parse_signed_headers(fields["SignedHeaders"])
    )
    return Proof(claim=claim, signature=fields["Signature"])


def parse_credential(text: str, *, in_query: bool = False) -> Credential:
    """Parse `KEY/DATE/REGION/SERVICE/aws4_request`. Raises MalformedAuthorization."""
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or not parts[0]:
        raise _malformed(
            "the Credential is not KEY/YYYYMMDD/REGION/SERVICE/aws4_request", in_query=in_query
        )
    access_key, date, region, service, terminator = parts
    if terminator != TERMINATOR:
        raise _malformed(f"the Credential must end in {TERMINATOR}", in_query=in_query)
    if not (len(date) == 8 and date.isascii() and date.isdecimal()):
        raise _malformed(f"the Credential's date {date!r} is not YYYYMMDD", in_query=in_query)
    return Credential(access_key=access_key, date=date, region=region, service=service)


def parse_signed_headers(text: str, *, in_query: bool = False) -> tuple[str, ...]:
    """Parse the names of signed headers, `host` among them. Raises MalformedAuthorization."""
    names = tuple(text.split(";"))
    if len(names) > limits.SIGNED_HEADERS_MAX:
        raise _malformed("SignedHeaders has too many names", in_query=in_query)
    if "host" not in names:
        raise _malformed("SignedHeaders must have host", in_query=in_query)
    if not all(map(_HEADER_NAME.fullmatch, names)) or len(set(names)) != len(names):
        raise _malformed(
            "SignedHeaders must be names of headers in lower case, each once", in_query=in_query
        )
    return names


def parse_timestamp(text: str) -> int | None:
    """Return `YYYYMMDDTHHMMSSZ` as Unix milliseconds, or None if it is not such a time."""
    if not _TIMESTAMP.fullmatch(text):
        return None
    year, month, day = int(text[0:4]), int(text[4:6]), int(text[6:8])
    hour, minute, second = int(text[9:11]), int(text[11:13]), int(text[13:15])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    if year < 1970 or day > calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, hour, minute, second)) * 1000


def format_timestamp(moment_ms: int) -> str:
    """Return Unix milliseconds as `YYYYMMDDTHHMMSSZ`."""
    parts = email.utils.formatdate(moment_ms // 1000, usegmt=True)
    day, month_name, year, clock = parts[5:25].split(" ")
    month = calendar.month_abbr[:].index(month_name)
    return f"{year}{month:02}{day}T{clock.replace(':', '')}Z"


def is_canonical_path(raw_path: bytes) -> bool:
    """Return whether the canonical URI of a path as sent, for S3, is the path; False for some whose
    is."""
    return _PLAIN_PATH.fullmatch(raw_path) is not None


def canonical_path(raw_path: bytes, *, double_encoded: bool) -> bytes:
    """Return the canonical URI of a path as sent."""
    if double_encoded:
        return urllib.parse.quote_from_bytes(raw_path, safe="/~").encode() or b"/"
    if _PLAIN_PATH.fullmatch(raw_path):
        return raw_path or b"/"
    return b"/".join(map(_encode_once, raw_path.split(b"/")))


def canonical_query(query: bytes, *, without: frozenset[bytes] = frozenset()) -> bytes:
    """Return the canonical query string; `without` names parameters to leave out."""
    if not query:
        return b""
    plain = _PLAIN_QUERY.fullmatch(query) is not None
    pairs = []
    for part in query.split(b"&"):
        if not part:
            continue
        name, _, value = part.partition(b"=")
        if not plain or b"=" in value:
            name = _encode_once(name.replace(b"+", b" "))
            value = _encode_once(value.replace(b"+", b" "))
        if name not in without:
            pairs.append((name, value))
    pairs.sort()
    return b"&".join([name + b"=" + value for name, value in pairs])


def canonical_headers(headers: Mapping[bytes, bytes], names: tuple[bytes, ...]) -> bytes:
    """Return the canonical headers, each line ended. A signed header that is absent is empty.

    headers: by lower-case name, a repeated one as its values joined by commas.
    """
    lines = []
    for name in names:
        value = headers.get(name, b"")
        if b" " in value or b"\t" in value:
            value = b" ".join(value.split())
        lines.append(b"%s:%s\n" % (name, value))
    return b"".join(lines)


def canonical_request(
    *,
    method: str,
    path: bytes,
    query: bytes,
    headers: bytes,
    names: tuple[bytes, ...],
    payload_hash: str,
) -> bytes:
    """Return the canonical request."""
    return b"%s\n%s\n%s\n%s\n%s\n%s" % (
        method.encode(),
        path,
        query,
        headers,
        b";".join(names),
        payload_hash.encode("latin-1"),
    )


def split_canonical(
    *,
    method: str,
    path: bytes,
    query: bytes,
    headers: Mapping[bytes, bytes],
    names: tuple[bytes, ...],
    payload_hash: str,
    varying: tuple[bytes, ...],
    key: bytes | None = None,
    payload: bytes | None = None,
    time_in_query: bytes | None = None,
) -> tuple[list[bytes], tuple[bytes, ...]]:
    """Return the canonical request in pieces between the values of varying headers, and the names
    of those whose values stand between two of them.

    varying: names of headers whose values have no space or tab. key: the name of what follows the
    path, which varies too and is canonical; None if nothing follows it. payload: the name of the
    header with the body's hash, if it varies. time_in_query: the name of the only parameter that
    varies, if one does.
    """
    pieces = []
    between = []
    text = b"%s\n%s" % (method.encode(), path)
    if key is not None:
        pieces.append(text)
        between.append(key)
        text = b""
    text += b"\n"
    for parameter in query.split(b"&"):
        name = parameter.partition(b"=")[0]
        text += b"" if text[-1:] == b"\n" else b"&"
        if name == time_in_query:
            pieces.append(text + name + b"=")
            between.append(name)
            text = b""
        else:
            text += parameter
    text += b"\n"
    for name in names:
        if name in varying:
            pieces.append(text + name + b":")
            between.append(name)
            text = b"\n"
        else:
            text += canonical_headers(headers, (name,))
    text = b"%s\n%s\n" % (text, b";".join(names))
    if payload is None:
        pieces.append(text + payload_hash.encode("latin-1"))
    else:
        pieces.extend((text, b""))
        between.append(payload)
    return pieces, tuple(between)


def string_to_sign(timestamp: str, scope: str, canonical: bytes) -> str:
    """Return the string to sign."""
    return f"{ALGORITHM}\n{timestamp}\n{scope}\n{hashlib.sha256(canonical).hexdigest()}"


def signing_key(secret_key: str, *, date: str, region: str, service: str) -> bytes:
    """Return the key derived for one day, region and service."""
    key = hmac.digest(b"AWS4" + secret_key.encode(), date.encode(), "sha256")
    key = hmac.digest(key, region.encode(), "sha256")
    key = hmac.digest(key, service.encode(), "sha256")
    return hmac.digest(key, TERMINATOR.encode(), "sha256")


def sign(key: bytes, text: str) -> str:
    """Return the signature of a string to sign."""
    return hmac.digest(key, text.encode(), "sha256").hex()


class Signer:
    """Signs with one key again and again.

    It is `sign`, HMAC-SHA256 (RFC 2104), with the digests of the padded key kept: OpenSSL makes
    them anew for each text, which takes longer than all the rest.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        assert len(padded) == _BLOCK_BYTES, "a signing key is a SHA-256"
        self._inner = hashlib.sha256(bytes([byte ^ 0x36 for byte in padded]))
        self._outer = hashlib.sha256(bytes([byte ^ 0x5C for byte in padded]))

    def sign(self, text: str) -> str:
        """Return the signature of a string to sign."""
        return self.sign_bytes(text.encode())

    def sign_bytes(self, text: bytes) -> str:
        """Return the signature of a string to sign that is encoded."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest()


def matches(computed: str, signature: str) -> bool:
    """Compare signatures in constant time."""
    return hmac.compare_digest(computed.encode(), signature.encode())


def unsigned_names(
    headers: Iterable[bytes],
    covered: frozenset[bytes],
    *,
    excepted: frozenset[bytes] = frozenset(),
) -> tuple[str, ...]:
    """Return the x-amz- headers that a signature does not cover. S3 refuses such a request,
    because a proxy could have added them to change its meaning."""
    missing = [
        name
        for name in headers
        if name not in covered and name[:6] == b"x-amz-" and name not in excepted
    ]
    return tuple(sorted(name.decode("latin-1") for name in missing)) if missing else ()


def check_skew(request_time_ms: int, *, now_ms: int) -> None:
    """Raise RequestTimeTooSkewed if the time of a signature differs too much from now."""
    if abs(request_time_ms - now_ms) > limits.CLOCK_SKEW_MS_MAX:
        raise errors.RequestTimeTooSkewed(
            "the difference between the request's time and the server's is too large",
            request_time_ms=request_time_ms,
            server_time_ms=now_ms,
            max_skew_ms=limits.CLOCK_SKEW_MS_MAX,
        )


def check_scope(
    credential: Credential,
    *,
    timestamp: str,
    services: tuple[str, ...],
    region: str | None,
    in_query: bool = False,
) -> None:
    """Raise if a scope has another day or service, or another region than the required one."""
    if credential.date != timestamp[:8]:
        raise _malformed(
            f"the Credential's date {credential.date} is not the request's {timestamp[:8]}",
            in_query=in_query,
        )
    if credential.service not in services:
        raise errors.ServiceMismatch(
            f"the Credential's service {credential.service!r} is none of those taken here: "
            f"{', '.join(services)}",
            expected=services,
            actual=credential.service,
        )
    if region is not None and credential.region != region:
        raise errors.RegionMismatch(
            f"the region {credential.region!r} is wrong; expecting {region!r}",
            expected=region,
            actual=credential.region,
        )


def parse_date_header(text: str) -> int | None:
    """Return a Date header as Unix milliseconds: an HTTP date, or the compact form."""
    compact = parse_timestamp(text)
    if compact is not None:
        return compact
    parsed = email.utils.parsedate_tz(text)
    if parsed is None:
        return None
    try:
        return email.utils.mktime_tz(parsed) * 1000
    except (ValueError, OverflowError):
        return None


def _encode_once(part: bytes) -> bytes:
    return urllib.parse.quote_from_bytes(urllib.parse.unquote_to_bytes(part), safe="~").encode()


def _malformed(message: str, *, in_query: bool = False) -> errors.MalformedAuthorization:
    return errors.MalformedAuthorization(message, in_query=in_query)
