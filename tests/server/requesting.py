"""Requests for tests of the HTTP kit: built by hand, or signed by botocore, without a socket."""

from __future__ import annotations

import asyncio
import datetime
import itertools
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from botocore import auth as botocore_auth
from botocore import awsrequest, credentials

from server import asgi, config
from server.access import principals, rootkeys, tokens
from server.auth import callers, chunked, verify

ACCESS_KEY = "BHROOTKEY0000000000"
SECRET_KEY = "root/secret+key"
ALICE = config.User(name="alice", access_key="AKALICE", secret_key="alice's secret")
REGION = "us-east-1"
ACCOUNT = "000000000000"
NOW_MS = 1_763_740_800_000  # 2025-11-21T16:00:00Z
RING = tokens.KeyRing(
    keys=(tokens.SigningKey(key_id="k1", secret=b"s" * 32),),
    master=b"master secret of 32 bytes ......",
)

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def request(
    method: str = "GET",
    target: str = "/",
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | Iterable[bytes] = b"",
    *,
    scheme: str = "http",
    client_ip: str = "127.0.0.1",
) -> asgi.Request:
    """A Request as the server would make it. target: percent-encoded, with query."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers],
        "scheme": scheme,
        "client": (client_ip, 40000),
    }
    return asgi.Request(scope, receiving(body), request_id="r" * 32)


def receiving(body: bytes | Iterable[bytes], *, then_disconnect: bool = False) -> asgi.Receive:
    pieces = [body] if isinstance(body, bytes) else list(body)
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if then_disconnect:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False
    left = itertools.chain(messages, itertools.repeat({"type": "http.disconnect"}))

    async def receive() -> dict[str, Any]:
        return next(left)

    return receive


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def people(*users: config.User) -> principals.Principals:
    return principals.Principals(
        account=ACCOUNT,
        root=rootkeys.RootKeys(access_key=ACCESS_KEY, secret_key=SECRET_KEY, created=False),
        users=users,
    )


def root_caller() -> callers.Caller:
    return callers.Caller(
        principal=people().root,
        payload=chunked.UNSIGNED_PAYLOAD,
        credential_id="",
        signing=callers.Signing(scheme="open"),
    )


def verifier(clock: Clock | None = None, **settings: Any) -> verify.Verifier:
    return verify.Verifier(principals=people(ALICE), ring=RING, now_ms=clock or Clock(), **settings)


def signed(
    method: str = "GET",
    url: str = "http://127.0.0.1:5253/bucket/key",
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    *,
    service: str = "s3",
    region: str = REGION,
    access_key: str = ACCESS_KEY,
    secret_key: str = SECRET_KEY,
    token: str | None = None,
    at_ms: int = NOW_MS,
    signer: Any = None,
    expires_seconds: int | None = None,
) -> awsrequest.AWSPreparedRequest:
    """A request that botocore signed as of at_ms; presigned if expires_seconds is given."""
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
    unsigned = awsrequest.AWSRequest(method=method, url=url, data=body, headers=dict(headers))
    keys = credentials.Credentials(access_key, secret_key, token)
    if signer is None:
        if service == "s3":
            signer = (
                botocore_auth.S3SigV4QueryAuth if expires_seconds else botocore_auth.S3SigV4Auth
            )
        else:
            signer = botocore_auth.SigV4QueryAuth if expires_seconds else botocore_auth.SigV4Auth
    arguments: tuple[Any, ...] = (keys, service, region)
    signing = signer(*arguments, expires=expires_seconds) if expires_seconds else signer(*arguments)
    with standing_still(moment):
        signing.add_auth(unsigned)
    return unsigned.prepare()


class standing_still:  # noqa: N801 - reads as a verb
    """Makes botocore's signers believe that it is `moment`."""

    def __init__(self, moment: datetime.datetime) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._saved = (
            botocore_auth.get_current_datetime,
            botocore_auth.time.time,
            botocore_auth.formatdate,
        )
        botocore_auth.get_current_datetime = lambda *_, **__: self._moment.replace(tzinfo=None)
        moment = self._moment

        class Time:
            @staticmethod
            def time() -> float:
                return moment.timestamp()

        self._time = botocore_auth.time
        botocore_auth.time = Time
        botocore_auth.formatdate = lambda **_: moment.strftime("%a, %d %b %Y %H:%M:%S GMT")

    def __exit__(self, *_: object) -> None:
        botocore_auth.get_current_datetime = self._saved[0]
        botocore_auth.time = self._time
        botocore_auth.formatdate = self._saved[2]


def as_request(prepared: awsrequest.AWSPreparedRequest, **changes: Any) -> asgi.Request:
    """What the server receives of a prepared request. changes: method, target, headers, body."""
    parts = urlsplit(prepared.url)
    headers = {
        name.lower(): value if isinstance(value, str) else value.decode("latin-1")
        for name, value in prepared.headers.items()
    }
    headers.setdefault("host", parts.netloc)
    body = prepared.body or b""
    if hasattr(body, "read"):
        body = body.read()
    target = parts.path + ("?" + parts.query if parts.query else "")
    return request(
        changes.get("method", prepared.method),
        changes.get("target", target),
        tuple({**headers, **changes.get("headers", {})}.items())
        + tuple(changes.get("more_headers", ())),
        changes.get("body", body),
    )
