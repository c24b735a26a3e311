"""The program over a real data folder, for tests of the REST catalog.

Requests go over a socket through the production HTTP protocol, so every test goes through dispatch,
authentication and authorisation as a client's request does. Time stands still unless a test moves
it.
"""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.access import tokens
from tests.kit import lakes, programs

ACCOUNT = "000000000000"
REGION = "us-east-1"
ROOT = ("ROOTKEY", "root-secret")
HOST = "boathouse.test:5253"
BUCKET_ARN = f"arn:aws:s3tables:{REGION}:{ACCOUNT}:bucket/lake"
SCHEMA = lakes.SCHEMA


def allow(action: str | list[str], resource: str | list[str], **more: Any) -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": action, "Resource": resource, **more}],
    }


def deny(action: str | list[str], resource: str | list[str], **more: Any) -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Deny", "Action": action, "Resource": resource, **more}],
    }


class Answer(programs.Answer):
    @property
    def error(self) -> tuple[int, str, str]:
        """Status, type and message; the body must hold nothing else."""
        content = self.json
        assert content.keys() == {"error"}, content
        assert content["error"].keys() == {"message", "type", "code"}, content
        assert content["error"]["code"] == self.status
        return self.status, content["error"]["type"], content["error"]["message"]


@dataclass(frozen=True, kw_only=True)
class RestServer:
    """One running program. users: (access key, secret key) by name."""

    lake: lakes.Lake
    port: programs.Port
    runner: asyncio.Runner
    users: dict[str, tuple[str, str]]
    ring: tokens.KeyRing
    tokens: dict[str, str] = field(default_factory=dict)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request as it is."""
        return self.run(self.sent(method, path, body, headers))

    async def sent(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = {"host": HOST, **(headers or {})}
        if body is not None:
            sent["content-length"] = str(len(body))
        answer = await self.port.send(method, path, sent, body or b"")
        return Answer(status=answer.status, headers=answer.headers, body=answer.body)

    def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        user: str = "root",
        prefix: str = "lake",
        **headers: str,
    ) -> Answer:
        """One request of a user to a path below the prefix. headers: `if_none_match="..."`."""
        return self.run(self.exchange(method, path, value, user=user, prefix=prefix, **headers))

    async def exchange(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        user: str = "root",
        prefix: str = "lake",
        **headers: str,
    ) -> Answer:
        sent_headers = {name.replace("_", "-"): text for name, text in headers.items()}
        sent_headers["authorization"] = f"Bearer {await self.token(user)}"
        body = None if value is None else json.dumps(value).encode()
        where = f"/iceberg/v1/{prefix}/{path}" if prefix else f"/iceberg/v1/{path}"
        return await self.sent(method, where, body, sent_headers)

    async def token(self, user: str) -> str:
        if user not in self.tokens:
            access_key, secret_key = self.users[user]
            answer = await self.token_answer(
                grant_type="client_credentials", client_id=access_key, client_secret=secret_key
            )
            assert answer.status == 200, answer.body
            self.tokens[user] = answer.json["access_token"]
        return self.tokens[user]

    async def token_answer(
        self, *, headers: Mapping[str, str] | None = None, **form: str
    ) -> Answer:
        return await self.sent(
            "POST",
            "/iceberg/v1/oauth/tokens",
            urllib.parse.urlencode(form).encode(),
            {"content-type": "application/x-www-form-urlencoded", **(headers or {})},
        )

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    # Steps that many tests begin with.

    def make_namespace(self, *levels: str, **properties: str) -> None:
        answer = self.ask(
            "POST", "namespaces", {"namespace": list(levels), "properties": properties}
        )
        assert answer.status == 200, answer.body

    def make_table(self, dotted: str, **more: Any) -> Any:
        """Create a table, its namespace too if need be; return the answer's JSON."""
        *namespace, name = dotted.split(".")
        self.ask("POST", "namespaces", {"namespace": namespace})
        answer = self.ask(
            "POST", f"namespaces/{join(namespace)}/tables", {"name": name, "schema": SCHEMA, **more}
        )
        assert answer.status == 200, answer.body
        return answer.json

    def commit(
        self, dotted: str, *updates: Mapping[str, Any], requirements: Any = (), **headers: str
    ) -> Answer:
        *namespace, name = dotted.split(".")
        return self.ask(
            "POST",
            f"namespaces/{join(namespace)}/tables/{name}",
            {"requirements": list(requirements), "updates": list(updates)},
            **headers,
        )

    def load(self, dotted: str, query: str = "", **headers: str) -> Answer:
        *namespace, name = dotted.split(".")
        return self.ask("GET", f"namespaces/{join(namespace)}/tables/{name}{query}", **headers)


def join(levels: list[str]) -> str:
    return urllib.parse.quote("\x1f".join(levels), safe="")


def set_property(name: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}


def add_snapshot(
    snapshot_id: int, sequence_number: int, *, parent: int | None = None, **summary: str
) -> list[dict[str, Any]]:
    """The updates of an append, as a client sends them."""
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": lakes.NOW_MS + sequence_number,
        "manifest-list": f"s3://lake/ns/t/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", **summary},
        "schema-id": 0,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    return [
        {"action": "add-snapshot", "snapshot": snapshot},
        {
            "action": "set-snapshot-ref",
            "ref-name": "main",
            "type": "branch",
            "snapshot-id": snapshot_id,
        },
    ]


@contextmanager
def opened(
    path: Path,
    *,
    users: Mapping[str, list[dict[str, Any]]] | None = None,
    clock: lakes.Clock | None = None,
    first_id: int = 1,
    **settings: Any,
) -> Iterator[RestServer]:
    """Open a folder and answer. users: policy documents of further users, by name."""
    people = programs.users(users or {})
    with (
        programs.opened(
            path,
            now_ms=clock or lakes.Clock(),
            new_id=lakes.ids(first_id),
            users=list(people.values()),
            **settings,
        ) as (program, settings),
        asyncio.Runner() as runner,
        programs.answering(program, settings, runner) as port,
    ):
        yield RestServer(
            lake=lakes.of_program(program),
            port=port,
            runner=runner,
            users={
                "root": ROOT,
                **{name: (user.access_key, user.secret_key) for name, user in people.items()},
            },
            ring=program.ring,
        )
