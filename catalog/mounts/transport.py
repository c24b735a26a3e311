"""engine: bounded HTTP requests of mounts to other catalogs and their storage. Blocks; for threads.

No redirect is followed and no proxy used, so that credentials reach the configured host alone.
Every wait and every body has a bound. Errors name the host and the path, never a query, a header
or a credential.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from catalog import errors
from server.auth import sigv4

JSON_BYTES_MAX: Final = 64 << 20
"""One answer of another catalog: a listing, or a table's metadata."""

STEP_BYTES: Final = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """Keys for signatures. service: which they are for."""

    access_key: str
    secret_key: str
    session_token: str
    region: str
    service: str

    def __repr__(self) -> str:
        return "Keys(...)"


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestTarget:
    """What a request is about. mount: its name, for errors. now_ms: the time of a signature."""

    mount: str
    url: str
    timeout_seconds: int
    now_ms: int

    @property
    def shown(self) -> str:
        """The target in errors: no query, no user."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """A whole answer."""

    status: int
    body: bytes


def fetch(
    target: RequestTarget,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    keys: Keys | None = None,
) -> HttpAnswer:
    """Return an answer's status and body. Raises MountUnavailable.

    The whole answer must be there within three times the target's timeout.
    """
    deadline = time.monotonic() + 3 * target.timeout_seconds
    pieces: list[bytes] = []
    with _Exchange(target, method, headers or {}, body, keys) as response:
        left = JSON_BYTES_MAX
        for piece in _pieces(target, response):
            left -= len(piece)
            if left < 0:
                raise _unavailable(target, f"the answer is longer than {JSON_BYTES_MAX} bytes")
            if time.monotonic() > deadline:
                raise _unavailable(target, "the answer takes too long")
            pieces.append(piece)
        return HttpAnswer(status=response.status, body=b"".join(pieces))


def download(
    target: RequestTarget, write: Callable[[bytes], None], *, keys: Keys | None, bytes_max: int
) -> int:
    """Pass a file's bytes to write, and return their number.

    Raises MountUnavailable, MetadataFileMissing for a file that does not exist.
    """
    size_bytes = 0
    with _Exchange(target, "GET", {}, b"", keys) as response:
        if response.status == 404:
            raise errors.MetadataFileMissing(
                f"Failed to open input stream for file: {target.shown}"
            )
        if response.status != 200:
            raise _unavailable(target, f"the answer has status {response.status}")
        for piece in _pieces(target, response):
            size_bytes += len(piece)
            if size_bytes > bytes_max:
                raise _unavailable(target, f"the file is longer than {bytes_max} bytes")
            write(piece)
        stated = response.getheader("content-length")
        if stated is not None and stated.isdecimal() and int(stated) != size_bytes:
            raise _unavailable(target, "the answer ended early")
    return size_bytes


def _pieces(target: RequestTarget, response: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while piece := response.read1(STEP_BYTES):
            yield piece
    except (OSError, http.client.HTTPException) as error:
        raise _unavailable(target, type(error).__name__, is_away=True) from None


class _Exchange:
    """A connection for one request; closed when it is left."""

    def __init__(
        self,
        target: RequestTarget,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        keys: Keys | None,
    ) -> None:
        self._target = target
        self._method = method
        self._headers = dict(headers)
        self._body = body
        self._keys = keys
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> http.client.HTTPResponse:
        parts = urllib.parse.urlsplit(self._target.url)
        host, timeout = parts.hostname or "", self._target.timeout_seconds
        try:
            if parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    host, parts.port, timeout=timeout, context=ssl.create_default_context()
                )
            else:
                self._connection = http.client.HTTPConnection(host, parts.port, timeout=timeout)
            path = parts.path or "/"
            headers = dict(self._headers)
            if self._keys is not None:
                headers |= signature(
                    self._keys,
                    self._method,
                    self._target.url,
                    self._body,
                    now_ms=self._target.now_ms,
                )
            whole = f"{path}?{parts.query}" if parts.query else path
            self._connection.request(self._method, whole, body=self._body or None, headers=headers)
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self._close()
            raise _unavailable(self._target, type(error).__name__, is_away=True) from None

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def signature(keys: Keys, method: str, url: str, body: bytes, *, now_ms: int) -> dict[str, str]:
    """Return the headers that sign a request. url: percent-encoded, as it is sent."""
    parts = urllib.parse.urlsplit(url)
    timestamp = sigv4.format_timestamp(now_ms)
    payload = hashlib.sha256(body).hexdigest()
    headers = {
        "host": parts.netloc,
        "x-amz-content-sha256": payload,
        "x-amz-date": timestamp,
    }
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    names = tuple(name.encode() for name in sorted(headers))
    raw = {name.encode(): value.encode() for name, value in headers.items()}
    canonical = sigv4.canonical_request(
        method=method,
        path=sigv4.canonical_path(
            (parts.path or "/").encode(), double_encoded=keys.service != "s3"
        ),
        query=sigv4.canonical_query(parts.query.encode()),
        headers=sigv4.canonical_headers(raw, names),
        names=names,
        payload_hash=payload,
    )
    date = timestamp[:8]
    scope = f"{date}/{keys.region}/{keys.service}/{sigv4.TERMINATOR}"
    key = sigv4.signing_key(keys.secret_key, date=date, region=keys.region, service=keys.service)
    signed = sigv4.sign(key, sigv4.string_to_sign(timestamp, scope, canonical))
    headers["authorization"] = (
        f"{sigv4.ALGORITHM} Credential={keys.access_key}/{scope}, "
        f"SignedHeaders={';'.join(sorted(headers))}, Signature={signed}"
    )
    return headers


def _unavailable(
    target: RequestTarget, reason: str, *, is_away: bool = False
) -> errors.MountUnavailable:
    """Return the error of a request. is_away: the other server does not answer at all."""
    return errors.MountUnavailable(
        f"The mount {target.mount} is not available: {target.shown}: {reason}", is_away=is_away
    )
