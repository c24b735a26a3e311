"""The program in a thread of the test's own process, for tests of S3.

Real sockets, real signatures, real storage. A test of how S3 asks its guard brings one of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import secrets
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials

from server import config
from server.s3 import guard, rows
from storage import opening
from tests.kit import programs, waits

START_SECONDS = 120
REGION = "us-east-1"
ACCOUNT = "000000000000"


@dataclass(frozen=True, kw_only=True)
class ObjectStore:
    """A running S3 server and what stands behind it."""

    url: str
    access_key: str
    secret_key: str
    storage: opening.Storage
    loop: asyncio.AbstractEventLoop

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://").rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def run(self, work: Any) -> Any:
        """Run a coroutine on the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(START_SECONDS)


@contextmanager
def serve(
    folder: Path,
    *,
    make_guard: Callable[[opening.Storage], guard.Guard] | None = None,
    users: Sequence[config.User] = (),
    domain: str | None = None,
    now_ms: Callable[[], int] = programs.wall_clock_ms,
    **settings_of_config: Any,
) -> Iterator[ObjectStore]:
    """Serve on a free port while the block runs. make_guard: in place of the tables' guard.

    settings_of_config: further settings, by their names.
    """
    keys = {"access_key": "AKIA" + secrets.token_hex(8).upper()}
    keys["secret_key"] = secrets.token_urlsafe(30)
    chosen = {**keys, **settings_of_config}
    with programs.opened(folder, now_ms=now_ms, users=users, domain=domain, **chosen) as (
        program,
        settings,
    ):
        if make_guard is not None:
            program.s3._guard = make_guard(program.storage)
        with programs.serving(program, settings) as serving:
            yield ObjectStore(
                url=f"http://127.0.0.1:{serving.port}",
                storage=program.storage,
                loop=serving.loop,
                **keys,
            )


def client(place: Any, **options: Any) -> Any:
    """Return boto3's S3 client for anything with url, access_key and secret_key."""
    settings: dict[str, Any] = {"retries": {"total_max_attempts": 1}, "s3": {}}
    settings["s3"]["addressing_style"] = options.pop("addressing_style", "path")
    settings.update(options.pop("config", {}))
    return boto3.client(
        "s3",
        endpoint_url=options.pop("endpoint_url", place.url),
        aws_access_key_id=options.pop("access_key", place.access_key),
        aws_secret_access_key=options.pop("secret_key", place.secret_key),
        region_name=REGION,
        config=botocore.config.Config(**settings),
        **options,
    )


class Answer(programs.Answer):
    """What came back over the wire."""

    @property
    def code(self) -> str:
        """The error code in an XML body, or "" for none."""
        return self.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()

    def element(self, name: str) -> str:
        """The text of the first element of that name in the body, or ""."""
        start, end = f"<{name}>".encode(), f"</{name}>".encode()
        return self.body.partition(start)[2].partition(end)[0].decode()


def send(
    place: Any,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | Sequence[bytes] = b"",
) -> Answer:
    """Send a request exactly as given, unsigned. target: raw path and query."""
    connection = http.client.HTTPConnection(place.host, place.port, timeout=waits.WAIT_SECONDS)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        pieces = [body] if isinstance(body, bytes) else list(body)
        wire = {"host": f"127.0.0.1:{place.port}", **(headers or {})}
        if "content-length" not in wire and "transfer-encoding" not in wire:
            wire["content-length"] = str(sum(map(len, pieces)))
        for name, value in wire.items():
            connection.putheader(name, value)
        connection.endheaders()
        for piece in pieces:
            connection.send(piece)
        answer = connection.getresponse()
        return Answer(
            status=answer.status,
            headers={name.lower(): value for name, value in answer.getheaders()},
            body=answer.read(),
        )
    finally:
        connection.close()


def sign(
    place: Any,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    *,
    payload_hash: str,
    access_key: str | None = None,
    secret_key: str | None = None,
    host: str | None = None,
) -> dict[str, str]:
    """Return the headers of a request signed by botocore's own S3 signer."""
    request = botocore.awsrequest.AWSRequest(
        method=method,
        url=f"http://{host or f'127.0.0.1:{place.port}'}{target}",
        headers=dict(headers or {}),
    )
    credentials = botocore.credentials.Credentials(
        access_key or place.access_key, secret_key or place.secret_key
    )
    signer = botocore.auth.S3SigV4Auth(credentials, "s3", REGION)
    signer.payload = lambda _: payload_hash
    signer.add_auth(request)
    signed = {name.lower(): value for name, value in request.headers.items()}
    signed["host"] = host or f"127.0.0.1:{place.port}"
    return signed


def call(
    place: Any,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    **signing: Any,
) -> Answer:
    """Send a request signed with SigV4 and the hash of its body."""
    payload_hash = signing.pop("payload_hash", hashlib.sha256(body).hexdigest())
    signed = sign(place, method, target, headers, payload_hash=payload_hash, **signing)
    return send(place, method, target, signed, body)


STREAMING_MODES = (
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
)


def stream(
    place: Any,
    method: str,
    target: str,
    chunks: Sequence[bytes],
    *,
    mode: str,
    headers: Mapping[str, str] | None = None,
    trailer: tuple[str, str] | None = None,
    spoil: Callable[[bytes], bytes] = lambda body: body,
) -> Answer:
    """Send an aws-chunked body in one of the STREAMING_MODES, framed and signed by hand.

    trailer: name and value behind the last chunk. spoil: changes the framed body on its way.
    """
    size = sum(map(len, chunks))
    wanted = {
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": str(size),
        **(headers or {}),
    }
    if trailer is not None:
        wanted["x-amz-trailer"] = trailer[0]
    signed = sign(place, method, target, wanted, payload_hash=mode)
    body = spoil(_framed(place, signed, chunks, mode, trailer))
    return send(place, method, target, {**signed, "content-length": str(len(body))}, body)


def _framed(
    place: Any,
    signed: Mapping[str, str],
    chunks: Sequence[bytes],
    mode: str,
    trailer: tuple[str, str] | None,
) -> bytes:
    timestamp = signed["x-amz-date"]
    scope = f"{timestamp[:8]}/{REGION}/s3/aws4_request"
    key = b"AWS4" + place.secret_key.encode()
    for part in (timestamp[:8], REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    previous = signed["authorization"].rpartition("Signature=")[2]
    nothing = hashlib.sha256(b"").hexdigest()
    out = []
    for chunk in [*(each for each in chunks if each), b""]:
        line = f"{len(chunk):x}"
        if "HMAC" in mode:
            digest = hashlib.sha256(chunk).hexdigest()
            text = (
                f"AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n{previous}\n{nothing}\n{digest}"
            )
            previous = hmac.digest(key, text.encode(), "sha256").hex()
            line += f";chunk-signature={previous}"
        out.append(line.encode() + b"\r\n" + chunk + (b"\r\n" if chunk else b""))
    if trailer is not None:
        row = f"{trailer[0]}:{trailer[1]}"
        out.append(row.encode() + b"\r\n")
        if "HMAC" in mode:
            digest = hashlib.sha256(f"{row}\n".encode()).hexdigest()
            text = f"AWS4-HMAC-SHA256-TRAILER\n{timestamp}\n{scope}\n{previous}\n{digest}"
            signature = hmac.digest(key, text.encode(), "sha256").hex()
            out.append(f"x-amz-trailer-signature:{signature}\r\n".encode())
    return b"".join(out) + b"\r\n"


def quoted(key: str) -> str:
    """Return a key as it stands in a path."""
    return urllib.parse.quote(key)


def unique_name(prefix: str = "t") -> str:
    """Return a bucket name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:20]}"


def new_bucket(s3: Any) -> str:
    """Make a bucket of one's own and return its name."""
    name = unique_name()
    s3.create_bucket(Bucket=name)
    return name


def operations_done() -> dict[str, str]:
    """Return every S3 operation by AWS's name and how far it is done: yes, partly or no.

    From the rows themselves, for the documentation to be held against.
    """
    return {row.name: row.status for row in rows.ROWS if row.status is not None}
