"""The s3tables face over a real data folder, called by real clients without a socket.

boto3 signs and serialises; its requests enter the ASGI application directly, so every test goes
through dispatch, authentication and authorisation as a user's request does.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.awsrequest
import botocore.config
import pytest
from botocore.exceptions import ClientError

from catalog import access
from catalog.metadata import model as metadata_model
from s3tables import face
from s3tables.labels import Labels
from s3tables.resources import Resources
from server import config, exchange
from server.access import decide, principals, rootkeys, tokens
from server.auth import verify
from storage import model as storage_model
from tests.kit import lakes

ACCOUNT = "000000000000"
REGION = "us-east-1"
ROOT = ("ROOTKEY", "root-secret")


def bucket_arn(name: str) -> str:
    return f"arn:aws:s3tables:{REGION}:{ACCOUNT}:bucket/{name}"


def policy(*statements: Mapping[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: str | list[str], resource: str | list[str], **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class House:
    """One running application. users: (access key, secret key) by name. log: all that was sent."""

    lake: lakes.Lake
    resources: Resources
    application: exchange.Exchange
    runner: asyncio.Runner
    users: dict[str, tuple[str, str]]
    log: list[tuple[str, str, bytes, Answer]] = field(default_factory=list)

    def client(self, user: str = "root", *, region: str = REGION) -> Any:
        """boto3's client of the service, as that user."""
        access_key, secret_key = self.users[user]
        client = boto3.client(
            "s3tables",
            endpoint_url="http://boathouse.test",
            region_name=region,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=botocore.config.Config(
                retries={"total_max_attempts": 1}, parameter_validation=False
            ),
        )
        client.meta.events.register("before-send.s3tables.*", self._before_send)
        return client

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request as it is, through the ASGI application."""
        parts = urlsplit(url)
        sent: list[dict[str, Any]] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        scope = {
            "type": "http",
            "method": method,
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "scheme": "http",
            "client": ("127.0.0.1", 1),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }

        async def receive() -> dict[str, Any]:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        self.runner.run(self.application(scope, receive, send))
        start = sent[0]
        answer = Answer(
            status=start["status"],
            headers={name.decode(): value.decode() for name, value in start["headers"]},
            body=b"".join(message.get("body", b"") for message in sent[1:]),
        )
        self.log.append((method, url, body, answer))
        return answer

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def put_object(self, bucket: str, key: str, data: bytes) -> None:
        """Store an object as the S3 face would."""

        async def put() -> None:
            receiver = self.lake.storage.blobs.receive(
                size_hint=len(data), digests=frozenset({"md5"})
            )
            await receiver.write(data)
            await self.lake.storage.objects.put(
                bucket,
                key,
                await receiver.finish(),
                attributes=storage_model.ObjectAttributes(),
                precondition=storage_model.Precondition(),
            )

        self.run(put())

    def read_object(self, location: str) -> bytes:
        bucket, _, key = location.removeprefix("s3://").partition("/")
        objects = self.lake.storage.objects
        return objects.read(objects.head(bucket, key))

    def next_metadata(self, location: str, name: str, **changes: Any) -> str:
        """Write metadata like that at location, with changes, beside it; return where it lies."""
        said = {**json.loads(self.read_object(location)), **changes}
        metadata_model.decode(json.dumps(said).encode())
        place = location.rpartition("/")[0] + f"/{name}"
        bucket, _, key = place.removeprefix("s3://").partition("/")
        self.put_object(bucket, key, json.dumps(said).encode())
        return place

    def _before_send(
        self, request: botocore.awsrequest.AWSPreparedRequest, **_: Any
    ) -> botocore.awsrequest.AWSResponse:
        headers = {
            name.lower(): value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
        }
        headers.setdefault("host", urlsplit(request.url).netloc)
        body = request.body or b""
        answer = self.send(
            request.method,
            request.url,
            headers,
            body.encode() if isinstance(body, str) else bytes(body),
        )
        return botocore.awsrequest.AWSResponse(
            request.url, answer.status, answer.headers, _Raw(answer.body)
        )


class _Raw(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


@contextmanager
def opened(
    path: Path, *, users: Mapping[str, list[dict[str, Any]]] | None = None
) -> Iterator[House]:
    """Open a house. users: policy documents of further users, by name."""
    people = {
        name: config.User(
            name=name,
            access_key=f"{name.upper()}KEY",
            secret_key=f"{name}-secret",
            policies=tuple(documents),
        )
        for name, documents in (users or {}).items()
    }
    with lakes.opened(path) as lake, asyncio.Runner() as runner:
        known = principals.Principals(
            account=ACCOUNT,
            root=rootkeys.RootKeys(access_key=ROOT[0], secret_key=ROOT[1], created=False),
            users=people.values(),
        )
        authoriser = decide.Authoriser(now_ms=lake.clock)
        resources = Resources(
            buckets=lake.storage.buckets,
            namespaces=lake.namespaces,
            tables=lake.tables,
            labels=Labels(index=lake.storage.index, buckets=lake.storage.buckets),
            index=lake.storage.index,
            authoriser=authoriser,
            access=access.Access(
                store=lake.store, authoriser=authoriser, region=REGION, account_id=ACCOUNT
            ),
            region=REGION,
            account_id=ACCOUNT,
        )
        application = exchange.Exchange(
            faces={face.NAME: face.make_face(resources)},
            verifier=verify.Verifier(principals=known, ring=_ring(), now_ms=_wall_clock),
            authoriser=authoriser,
            now_ms=lake.clock,
            new_id=lakes.ids(10_000_000),
            monotonic_ns=lambda: 0,
            files=lake.storage.disk,
        )
        yield House(
            lake=lake,
            resources=resources,
            application=application,
            runner=runner,
            users={
                "root": ROOT,
                **{name: (user.access_key, user.secret_key) for name, user in people.items()},
            },
        )


def _wall_clock() -> int:
    """boto3 signs by its own clock, so signatures are judged by it too."""
    return int(time.time() * 1000)


def _ring() -> tokens.KeyRing:
    key = tokens.SigningKey(key_id="k", secret=b"k" * 32)
    return tokens.KeyRing(keys=(key,), master=b"m" * 32)


def refused(call: Callable[..., Any], **members: Any) -> tuple[int, str, str]:
    """Status, error code and message of a call that must be refused."""
    with pytest.raises(ClientError) as caught:
        call(**members)
    response = caught.value.response
    return (
        response["ResponseMetadata"]["HTTPStatusCode"],
        response["Error"]["Code"],
        response["Error"]["Message"],
    )
