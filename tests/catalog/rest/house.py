"""The REST catalog over a real data folder, asked without a socket.

Requests enter the ASGI application directly, so every test goes through dispatch, authentication
and authorisation as a client's request does. Time stands still unless a test moves it.
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

from catalog import access as rest_access
from catalog import guard
from catalog.rest import face, native
from server import config, counters, exchange
from server import native as native_face
from server.access import decide, principals, rootkeys, tokens
from server.auth import verify
from server.s3 import face as s3_face
from tests.kit import lakes, sweeps

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


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, type and message; the body must hold nothing else."""
        content = self.json
        assert content.keys() == {"error"}, content
        assert content["error"].keys() == {"message", "type", "code"}, content
        assert content["error"]["code"] == self.status
        return self.status, content["error"]["type"], content["error"]["message"]


@dataclass(frozen=True, kw_only=True)
class House:
    """One running application. users: (access key, secret key) by name."""

    lake: lakes.Lake
    application: exchange.Exchange
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
        raw_path, _, query = path.partition("?")
        given = {"host": HOST, **(headers or {})}
        if body is not None:
            given["content-length"] = str(len(body))
        messages = [{"type": "http.request", "body": body or b"", "more_body": False}]
        answered: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "method": method,
            "path": urllib.parse.unquote(raw_path),
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "scheme": "http",
            "client": ("127.0.0.1", 1),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        }

        async def receive() -> dict[str, Any]:
            if not messages:
                await asyncio.Event().wait()  # the client stays until it has its answer
            return messages.pop(0)

        async def send(message: Any) -> None:
            answered.append(message)

        await self.application(scope, receive, send)
        start = answered[0]
        return Answer(
            status=start["status"],
            headers={name.decode(): value.decode() for name, value in start["headers"]},
            body=b"".join(message.get("body", b"") for message in answered[1:]),
        )

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
        return self.run(self.asked(method, path, value, user=user, prefix=prefix, **headers))

    async def asked(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        user: str = "root",
        prefix: str = "lake",
        **headers: str,
    ) -> Answer:
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        given["authorization"] = f"Bearer {await self.token(user)}"
        body = None if value is None else json.dumps(value).encode()
        where = f"/iceberg/v1/{prefix}/{path}" if prefix else f"/iceberg/v1/{path}"
        return await self.sent(method, where, body, given)

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
    with (
        lakes.opened(path, clock=clock, first_id=first_id) as lake,
        asyncio.Runner() as runner,
    ):
        known = principals.Principals(
            account=ACCOUNT,
            root=rootkeys.RootKeys(access_key=ROOT[0], secret_key=ROOT[1], created=False),
            users=people.values(),
        )
        authoriser = decide.Authoriser(now_ms=lake.clock)
        ring = tokens.KeyRing(
            keys=(tokens.SigningKey(key_id="k", secret=b"k" * 32),), master=b"m" * 32
        )
        ids = lakes.ids(10_000_000 + first_id)
        asking = rest_access.Access(
            store=lake.store, authoriser=authoriser, region=REGION, account_id=ACCOUNT
        )
        application = exchange.Exchange(
            faces={
                "iceberg": face.IcebergFace(
                    store=lake.store,
                    namespaces=lake.namespaces,
                    tables=lake.tables,
                    views=lake.views,
                    authoriser=authoriser,
                    principals=known,
                    ring=ring,
                    default_warehouse="lake",
                    region=REGION,
                    account_id=ACCOUNT,
                    now_ms=lake.clock,
                    new_id=ids,
                ),
                "s3": s3_face.Face(
                    storage=lake.storage,
                    guard=guard.TableGuard(store=lake.store, region=REGION, account_id=ACCOUNT),
                    authoriser=authoriser,
                    root=known.root,
                    region=REGION,
                ),
                "native": native_face.NativeFace(
                    counts=counters.Counters(),
                    version="test",
                    routes=native.make_routes(
                        tables=lake.tables, access=asking, sweep=sweeps.sweep_of(lake)
                    ),
                    wire_errors=native.WIRE_ERRORS,
                ),
            },
            verifier=verify.Verifier(principals=known, ring=ring, now_ms=lake.clock),
            authoriser=authoriser,
            now_ms=lake.clock,
            new_id=ids,
            monotonic_ns=lambda: 0,
            files=lake.storage.disk,
        )
        yield House(
            lake=lake,
            application=application,
            runner=runner,
            users={
                "root": ROOT,
                **{name: (user.access_key, user.secret_key) for name, user in people.items()},
            },
            ring=ring,
        )
