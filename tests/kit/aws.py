"""A program in this process with a clock that can be moved, and boto3's clients of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.config
import botocore.exceptions

from program import application
from server import config
from tests.kit import programs
from tests.server import requesting

REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """A key pair, temporary if it has a token."""

    access_key: str
    secret_key: str
    token: str | None = None

    @staticmethod
    def of(answer: Mapping[str, Any]) -> Keys:
        """The keys of an answer of STS, or of CreateAccessKey."""
        stated = answer.get("Credentials") or answer["AccessKey"]
        return Keys(
            access_key=stated["AccessKeyId"],
            secret_key=stated["SecretAccessKey"],
            token=stated.get("SessionToken"),
        )


ROOT = Keys(access_key="ROOTKEY", secret_key="root-secret")


def keys_of(user: str) -> Keys:
    """The keys of one of `programs.users`."""
    return Keys(access_key=f"{user.upper()}KEY", secret_key=f"{user}-secret")


@dataclass(kw_only=True)
class Clock:
    """The time of day, some time off."""

    offset_ms: int = 0

    def __call__(self) -> int:
        return programs.wall_clock_ms() + self.offset_ms


@dataclass(frozen=True, kw_only=True)
class Server:
    """A program that answers at a port."""

    program: application.Program
    serving: programs.Serving
    clock: Clock
    clients: dict[tuple[str, Keys], Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.serving.port}"

    def client(self, service: str, keys: Keys = ROOT) -> Any:
        """boto3's client of a service, which tries once."""
        if (service, keys) not in self.clients:
            self.clients[service, keys] = boto3.client(
                service,
                endpoint_url=self.url,
                region_name=REGION,
                aws_access_key_id=keys.access_key,
                aws_secret_access_key=keys.secret_key,
                aws_session_token=keys.token,
                config=botocore.config.Config(
                    retries={"total_max_attempts": 1}, parameter_validation=False
                ),
            )
        return self.clients[service, keys]


@contextmanager
def serving(
    folder: Path, *, users: Sequence[config.User] = (), **settings: Any
) -> Iterator[Server]:
    """A server over a folder."""
    clock = Clock()
    with (
        programs.opened(folder, now_ms=clock, users=users, **settings) as (program, chosen),
        programs.serving(program, chosen) as port,
    ):
        yield Server(program=program, serving=port, clock=clock)


def signed(
    server: Server,
    keys: Keys,
    method: str,
    target: str,
    body: Any = None,
    *,
    service: str = "glue",
) -> tuple[int, Any]:
    """Status and JSON of the answer to a signed request, None if it has none."""
    data = b"" if body is None else json.dumps(body).encode()
    prepared = requesting.signed(
        method,
        server.url + target,
        body=data,
        service=service,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        token=keys.token,
        at_ms=server.clock(),
    )
    parts = urlsplit(prepared.url)
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    connection.request(
        method,
        parts.path + ("?" + parts.query if parts.query else ""),
        data,
        {
            name: value if isinstance(value, str) else value.decode()
            for name, value in prepared.headers.items()
        },
    )
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = content and "json" in answer.getheader("content-type", "")
    return answer.status, json.loads(content) if is_json else None


def refusal(call: Any, *arguments: Any, **members: Any) -> tuple[int, str]:
    """Status and code of a call's refusal."""
    try:
        call(*arguments, **members)
    except botocore.exceptions.ClientError as error:
        response = error.response
        return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]
    raise AssertionError("the call was not refused")
