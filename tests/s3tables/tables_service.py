"""The program over a real data folder, for tests of the s3tables face.

boto3 signs and serialises; its requests go over a socket through the production HTTP protocol, so
every test goes through dispatch, authentication and authorisation as a user's request does. Server
and clients share one clock, which stands still unless a test moves it.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import io
import json
import unittest.mock
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.crt.auth
import botocore.session
import pytest
from botocore.exceptions import ClientError

from catalog.metadata import model as metadata_model
from storage import model as storage_model
from tests.kit import lakes, programs

ACCOUNT = "000000000000"
REGION = "us-east-1"
ROOT = ("ROOTKEY", "root-secret")
MODEL = botocore.session.get_session().get_service_model("s3tables")
NOT_LISTED = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "NotImplementedException",
        "ServiceUnavailableException",
        "ThrottlingException",
        "UnrecognizedClientException",
    }
)
"""Codes that any operation may answer beside those that its model lists: AWS's common errors, and
Boathouse's refusal of a feature by its name."""


def bucket_arn(name: str) -> str:
    return f"arn:aws:s3tables:{REGION}:{ACCOUNT}:bucket/{name}"


def policy(*statements: Mapping[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(action: str | list[str], resource: str | list[str], **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


Answer = programs.Answer


@dataclass(frozen=True, kw_only=True)
class TablesService:
    """One running program. users: (access key, secret key) by name. log: all that was sent."""

    lake: lakes.Lake
    port: programs.Port
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
        """One request as it is."""
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        wire = {"content-length": str(len(body)), **headers}
        came = self.runner.run(self.port.send(method, target, wire, body))
        answer = Answer(status=came.status, headers=came.headers, body=came.body)
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
        self, request: botocore.awsrequest.AWSPreparedRequest, event_name: str, **_: Any
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
        if answer.status >= 400:
            operation = MODEL.operation_model(event_name.rpartition(".")[2])
            listed = {shape.name for shape in operation.error_shapes}
            assert answer.headers["x-amzn-ErrorType"] in listed | NOT_LISTED, operation.name
        return botocore.awsrequest.AWSResponse(
            request.url, answer.status, answer.headers, _Raw(answer.body)
        )


class _Raw(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


@contextmanager
def opened(
    path: Path,
    *,
    users: Mapping[str, list[dict[str, Any]]] | None = None,
    **settings_of_config: Any,
) -> Iterator[TablesService]:
    """Start the program over a folder. users: policy documents of further users, by name."""
    people = programs.users(users or {})
    clock = lakes.Clock()
    now = functools.partial(_datetime_of, clock)
    with (
        programs.opened(
            path,
            now_ms=clock,
            new_id=lakes.ids(),
            users=list(people.values()),
            **settings_of_config,
        ) as (program, settings),
        asyncio.Runner() as runner,
        programs.answering(program, settings, runner) as port,
        unittest.mock.patch.object(botocore.auth, "get_current_datetime", now),
        unittest.mock.patch.object(botocore.crt.auth, "get_current_datetime", now),
    ):
        yield TablesService(
            lake=lakes.of_program(program),
            port=port,
            runner=runner,
            users={
                "root": ROOT,
                **{name: (user.access_key, user.secret_key) for name, user in people.items()},
            },
        )


def _datetime_of(clock: lakes.Clock, remove_tzinfo: bool = True) -> datetime.datetime:
    now = datetime.datetime.fromtimestamp(clock() / 1000, datetime.UTC)
    return now.replace(tzinfo=None) if remove_tzinfo else now


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
