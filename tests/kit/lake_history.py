"""Concurrent clients of every face do random things to the same few names, and write it all down.

Each seed has a table bucket and objects of its own on one running server. A client is a thread with
a connection per face; what it does next comes from the seed, what it knows (a table's head, where
its metadata lies) from what it was answered. Every operation becomes an Event of
`tests.kit.linearize`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import random
import threading
import time
import urllib.parse
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials

from tests.kit import lake_model, linearize, rest, s3
from tests.kit.lake_model import Table, Where
from tests.kit.linearize import UNKNOWN, Event
from tests.kit.server import Running

BUCKET = "load"
NAMESPACES = ("n1", "n2")
NAMES = ("a", "b")
KEYS = ("k1", "k2")
CLIENTS = 5
ANSWER_SECONDS = 60
LOST = (OSError, http.client.HTTPException)
"""What a request raises whose server is gone: its outcome is unknown."""


class Broken(AssertionError):
    """An answer that no operation may have: a 500, or words that the protocol does not know."""


@dataclass
class Known:
    """What the clients of one seed have learned, mutable: where metadata files lie."""

    bucket: str
    files: list[tuple[str, Table]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    counter: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)
    call_after: tuple[int, Callable[[], None]] | None = None
    """A number of events, and what is called as soon as so many have happened."""

    def happened(self, event: Event) -> None:
        with self.guard:
            self.events.append(event)
            if self.call_after is not None and len(self.events) == self.call_after[0]:
                self.call_after[1]()

    def fresh(self) -> int:
        with self.guard:
            self.counter += 1
            return self.counter


Reply = tuple[str, Any]
"""An outcome and its value."""


class Faces:
    """One client's connections: S3, REST, s3tables and SQL."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.rest = rest.Client(server)
        self.sql_token = self._login()
        self.connection = http.client.HTTPConnection(
            server.host, server.port, timeout=ANSWER_SECONDS
        )
        self.credentials = botocore.credentials.Credentials(server.access_key, server.secret_key)

    def close(self) -> None:
        self.connection.close()
        self.rest.close()

    def _login(self) -> str:
        data = {
            "CLIENT_APP_ID": "history",
            "ACCOUNT_NAME": "boathouse",
            "LOGIN_NAME": self.server.access_key,
            "PASSWORD": self.server.secret_key,
        }
        connection = http.client.HTTPConnection(
            self.server.host, self.server.port, timeout=ANSWER_SECONDS
        )
        connection.request(
            "POST",
            "/session/v1/login-request?databaseName=lake",
            json.dumps({"data": data}),
            {"content-type": "application/json", "accept": "application/json"},
        )
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["success"], answer
        return str(answer["data"]["token"])

    def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            self.connection.request(method, target, body or None, headers)
            answer = self.connection.getresponse()
            content = answer.read()
        except LOST:
            self.connection.close()
            raise
        return answer.status, {n.lower(): v for n, v in answer.getheaders()}, content

    def sql(self, text: str) -> tuple[Reply, Any]:
        """Run a statement; return its outcome and its rows."""
        status, _, body = self.send(
            "POST",
            f"/queries/v1/query-request?requestId={uuid.uuid4()}",
            {
                "content-type": "application/json",
                "accept": "application/json",
                "authorization": f'Snowflake Token="{self.sql_token}"',
            },
            json.dumps({"sqlText": text}).encode(),
        )
        answer = json.loads(body) if status == 200 else {}
        if answer.get("success"):
            return ("ok", None), answer["data"].get("rowset")
        match answer.get("code"):
            case "002003" | "002043":
                return ("missing", None), None
            case "002002" | "002030" | "000625":
                return ("conflict", None), None
            case "000002" if "has no metadata yet" in answer["message"]:
                return ("missing", None), None
        raise Broken(f"{text}: {status} {body[:500]!r}")

    def s3tables(self, method: str, path: str, value: Any = None) -> tuple[Reply, Any]:
        body = b"" if value is None else json.dumps(value).encode()
        headers = {"content-type": "application/json"} if body else {}
        signed = self._signed("s3tables", method, path, headers, body)
        return self._reply(f"{method} {path}", *self.send(method, path, signed, body))

    def iceberg(self, method: str, path: str, value: Any = None) -> tuple[Reply, Any]:
        body = b"" if value is None else json.dumps(value).encode()
        headers = {
            "authorization": f"Bearer {self.rest.token}",
            "content-type": "application/json",
        }
        target = f"/iceberg/v1/{path}"
        return self._reply(f"{method} {path}", *self.send(method, target, headers, body))

    def signed_s3(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        signed = self._signed("s3", method, target, headers, body)
        return self.send(method, target, signed, body)

    def object(
        self, method: str, target: str, body: bytes = b"", **conditions: str
    ) -> tuple[Reply, dict[str, str]]:
        headers = {name.replace("_", "-"): value for name, value in conditions.items()}
        status, answered, content = self.signed_s3(method, target, headers, body)
        match status:
            case 200 | 204:
                return ("ok", None), answered
            case 404:
                return ("missing", None), answered
            case 412:
                return ("conflict", None), answered
            case 400 | 403 | 409:
                return ("refused", None), answered
        raise Broken(f"{method} {target}: {status} {content[:500]!r}")

    def _signed(
        self, service: str, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> dict[str, str]:
        request = botocore.awsrequest.AWSRequest(
            method=method,
            url=f"http://{self.server.host}:{self.server.port}{target}",
            headers=dict(headers),
            data=body,
        )
        signer = botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth
        signer(self.credentials, service, s3.REGION).add_auth(request)
        signed = {name.lower(): value for name, value in request.headers.items()}
        signed["host"] = f"{self.server.host}:{self.server.port}"
        return signed

    @staticmethod
    def _reply(what: str, status: int, _: dict[str, str], body: bytes) -> tuple[Reply, Any]:
        content = json.loads(body) if body else None
        match status:
            case 200 | 204:
                return ("ok", None), content
            case 404:
                return ("missing", None), content
            case 409:
                return ("conflict", None), content
            case 400 | 403:
                return ("refused", None), content
        raise Broken(f"{what}: {status} {body[:500]!r}")


class Client:
    """One thread's work on one seed."""

    def __init__(
        self,
        number: int,
        faces: Faces,
        shared: Known,
        chance: random.Random,
        weights: Mapping[str, int],
    ) -> None:
        self.weights = weights
        self.number = number
        self.faces = faces
        self.shared = shared
        self.chance = chance
        self.heads: dict[Where, str | None] = {}
        self.etags: dict[str, str] = {}

    @property
    def arn(self) -> str:
        arn = f"arn:aws:s3tables:{s3.REGION}:{s3.ACCOUNT}:bucket/{self.shared.bucket}"
        return urllib.parse.quote(arn, safe="")

    def do(self, name: str, arguments: tuple[Any, ...], work: Callable[[], Reply]) -> None:
        """Do one operation and write it down, answered or not."""
        called_ns = time.monotonic_ns()
        outcome, value, returned_ns = UNKNOWN, None, None
        try:
            outcome, value = work()
            returned_ns = time.monotonic_ns()
        finally:
            event = Event(
                client=self.number,
                name=name,
                arguments=arguments,
                outcome=outcome,
                value=value,
                called_ns=called_ns,
                returned_ns=returned_ns,
            )
            self.shared.happened(event)

    def anything(self) -> None:
        """Do one random operation."""
        names, weights = zip(*self.weights.items(), strict=True)
        (name,) = self.chance.choices(names, weights)
        getattr(self, name)()

    def where(self) -> Where:
        return self.chance.choice(NAMESPACES), self.chance.choice(NAMES)

    def pick(self, *ways: Callable[[], Reply]) -> Callable[[], Reply]:
        return self.chance.choice(ways)

    def quoted(self, *parts: str) -> str:
        return ".".join(f'"{part}"' for part in (self.shared.bucket, *parts))

    # Buckets and namespaces.

    def create_bucket(self) -> None:
        body = {"name": self.shared.bucket}
        self.do("create_bucket", (), lambda: self.faces.s3tables("PUT", "/buckets", body)[0])

    def delete_bucket(self) -> None:
        path = f"/buckets/{self.arn}"
        self.do("delete_bucket", (), lambda: self.faces.s3tables("DELETE", path)[0])

    def create_namespace(self) -> None:
        namespace, faces = self.chance.choice(NAMESPACES), self.faces
        self.do(
            "create_namespace",
            (namespace,),
            self.pick(
                lambda: faces.iceberg(
                    "POST", f"{self.shared.bucket}/namespaces", {"namespace": [namespace]}
                )[0],
                lambda: faces.s3tables(
                    "PUT", f"/namespaces/{self.arn}", {"namespace": [namespace]}
                )[0],
                lambda: faces.sql(f"create schema {self.quoted(namespace)}")[0],
            ),
        )

    def drop_namespace(self) -> None:
        namespace, faces = self.chance.choice(NAMESPACES), self.faces
        path = f"{self.shared.bucket}/namespaces/{namespace}"
        self.do(
            "drop_namespace",
            (namespace,),
            self.pick(
                lambda: faces.iceberg("DELETE", path)[0],
                lambda: faces.s3tables("DELETE", f"/namespaces/{self.arn}/{namespace}")[0],
            ),
        )

    def drop_namespace_and_tables(self) -> None:
        namespace = self.chance.choice(NAMESPACES)
        text = f"drop schema {self.quoted(namespace)}"
        self.do("drop_namespace_and_tables", (namespace,), lambda: self.faces.sql(text)[0])

    def list_tables(self) -> None:
        namespace = self.chance.choice(NAMESPACES)

        def by_rest() -> Reply:
            path = f"{self.shared.bucket}/namespaces/{namespace}/tables"
            (outcome, _), content = self.faces.iceberg("GET", path)
            if outcome != "ok":
                return outcome, None
            return "ok", frozenset(each["name"] for each in content["identifiers"])

        def by_sql() -> Reply:
            (outcome, _), rows = self.faces.sql(f"show tables in schema {self.quoted(namespace)}")
            return outcome, None if rows is None else frozenset(row[1].lower() for row in rows)

        self.do("list_tables", (namespace,), self.pick(by_rest, by_sql))

    # Tables.

    def table_path(self, where: Where) -> str:
        return f"{self.shared.bucket}/namespaces/{where[0]}/tables/{where[1]}"

    def create_table(self) -> None:
        where, mark, faces = self.where(), f"t{self.shared.fresh()}", self.faces
        schema = {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": mark, "required": False, "type": "int"}],
        }

        def by_rest() -> Reply:
            path = f"{self.shared.bucket}/namespaces/{where[0]}/tables"
            reply, content = faces.iceberg("POST", path, {"name": where[1], "schema": schema})
            self.learn(where, content)
            return reply

        def by_s3tables() -> Reply:
            body = {
                "name": where[1],
                "format": "ICEBERG",
                "metadata": {"iceberg": {"schema": {"fields": [{"name": mark, "type": "int"}]}}},
            }
            return faces.s3tables("PUT", f"/tables/{self.arn}/{where[0]}", body)[0]

        def by_sql() -> Reply:
            return faces.sql(f"create table {self.quoted(*where)} ({mark} int)")[0]

        self.do("create_table", (where, mark), self.pick(by_rest, by_s3tables, by_sql))

    def create_bare(self) -> None:
        where = self.where()
        path, body = f"/tables/{self.arn}/{where[0]}", {"name": where[1], "format": "ICEBERG"}
        self.do("create_bare", (where,), lambda: self.faces.s3tables("PUT", path, body)[0])

    def drop_table(self) -> None:
        where, faces = self.where(), self.faces
        self.do(
            "drop_table",
            (where,),
            self.pick(
                lambda: faces.iceberg("DELETE", self.table_path(where))[0],
                lambda: faces.s3tables("DELETE", f"/tables/{self.arn}/{where[0]}/{where[1]}")[0],
                lambda: faces.sql(f"drop table {self.quoted(*where)}")[0],
            ),
        )

    def rename(self) -> None:
        source, target, faces = self.where(), self.where(), self.faces
        if source == target:
            return

        def by_rest() -> Reply:
            body = {
                side: {"namespace": [where[0]], "name": where[1]}
                for side, where in (("source", source), ("destination", target))
            }
            return faces.iceberg("POST", f"{self.shared.bucket}/tables/rename", body)[0]

        def by_s3tables() -> Reply:
            body = {"newNamespaceName": target[0], "newName": target[1]}
            path = f"/tables/{self.arn}/{source[0]}/{source[1]}/rename"
            return faces.s3tables("PUT", path, body)[0]

        self.do("rename", (source, target), self.pick(by_rest, by_s3tables))

    def load(self) -> None:
        where = self.where()

        def by_rest() -> Reply:
            (outcome, _), content = self.faces.iceberg("GET", self.table_path(where))
            return outcome, self.learn(where, content) if outcome == "ok" else None

        self.do("load", (where,), by_rest)

    def exists(self) -> None:
        where = self.where()
        query = urllib.parse.urlencode({"namespace": where[0], "name": where[1]})
        path = f"/get-table?tableBucketARN={self.arn}&{query}"
        self.do("exists", (where,), lambda: self.faces.s3tables("GET", path)[0])

    def columns(self) -> None:
        where = self.where()

        def by_sql() -> Reply:
            (outcome, _), rows = self.faces.sql(f"describe table {self.quoted(*where)}")
            return outcome, None if rows is None else frozenset(row[0].lower() for row in rows)

        self.do("columns", (where,), by_sql)

    def mark(self) -> None:
        where, mark = self.where(), f"p{self.shared.fresh()}"
        updates = [{"action": "set-properties", "updates": {mark: "1"}}]
        body = {"requirements": [], "updates": updates}
        path = self.table_path(where)
        self.do("mark", (where, mark), lambda: self.faces.iceberg("POST", path, body)[0])

    def mark_both(self) -> None:
        one, other, mark = self.where(), self.where(), f"p{self.shared.fresh()}"
        if one == other:
            return
        changes = [
            {
                "identifier": {"namespace": [where[0]], "name": where[1]},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": {mark: "1"}}],
            }
            for where in (one, other)
        ]
        path = f"{self.shared.bucket}/transactions/commit"
        self.do(
            "mark_both",
            (one, other, mark),
            lambda: self.faces.iceberg("POST", path, {"table-changes": changes})[0],
        )

    def append(self) -> None:
        if not self.heads:
            self.load()
            return
        where = self.chance.choice(sorted(self.heads))
        head, number = self.heads[where], self.shared.fresh()
        parent = int(head[1:]) if head else None
        snapshot: dict[str, Any] = {
            "snapshot-id": number,
            "sequence-number": 1_000_000 + number,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"s3://{self.shared.bucket}/none.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        body = {
            "requirements": [
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": number,
                },
            ],
        }
        self.do(
            "append",
            (where, head, f"s{number}"),
            lambda: self.faces.iceberg("POST", self.table_path(where), body)[0],
        )

    def register(self) -> None:
        if not self.shared.files:
            self.load()
            return
        where, (location, table) = self.where(), self.chance.choice(self.shared.files)
        path = f"{self.shared.bucket}/namespaces/{where[0]}/register"
        body = {"name": where[1], "metadata-location": location}
        self.do(
            "register",
            (where, table),
            lambda: self.faces.iceberg("POST", path, body)[0],
        )

    def delete_metadata(self) -> None:
        if not self.shared.files:
            self.load()
            return
        location, table = self.chance.choice(self.shared.files)
        target = "/" + location.removeprefix("s3://")
        self.do("delete_metadata", (table,), lambda: self.faces.object("DELETE", target)[0])

    def learn(self, where: Where, content: Any) -> Table | None:
        """Take in a load's or a create's answer."""
        if not content or "metadata" not in content:
            return None
        metadata = content["metadata"]
        (schema,) = [
            each
            for each in metadata["schemas"]
            if each["schema-id"] == metadata["current-schema-id"]
        ]
        head = metadata.get("current-snapshot-id")
        marks = {each["name"] for each in schema["fields"]}
        marks |= {name for name in metadata.get("properties", {}) if name[1:].isdecimal()}
        marks |= {f"s{each['snapshot-id']}" for each in metadata.get("snapshots", [])}
        table = Table(frozenset(marks), f"s{head}" if head not in (None, -1) else None)
        self.heads[where] = table.head
        with self.shared.guard:
            if (content["metadata-location"], table) not in self.shared.files:
                self.shared.files.append((content["metadata-location"], table))
        return table

    # Objects.

    def get_object(self) -> None:
        key = self.chance.choice(KEYS)
        target = f"/{BUCKET}/{self.shared.bucket}/{key}"

        def get() -> Reply:
            (outcome, _), headers = self.faces.object("GET", target)
            if outcome != "ok":
                return outcome, None
            self.etags[key] = headers["etag"]
            return outcome, headers["etag"]

        self.do(f"get {key}", (), get)

    def upload_object(self) -> None:
        """Complete an upload of one part, which takes effect as a PUT does."""
        key = self.chance.choice(KEYS)
        target = f"/{BUCKET}/{self.shared.bucket}/{key}"
        body = f"{self.shared.bucket} {self.shared.fresh()}".encode()
        status, _, content = self.faces.signed_s3("POST", f"{target}?uploads=", {}, b"")
        upload_id = content.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        if status != 200 or not upload_id:
            raise Broken(f"POST {target}?uploads=: {status} {content[:500]!r}")
        query = f"partNumber=1&uploadId={upload_id}"
        self.faces.signed_s3("PUT", f"{target}?{query}", {}, body)
        part = f"<Part><PartNumber>1</PartNumber><ETag>{etag_of(body)}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
        digest = hashlib.md5(hashlib.md5(body, usedforsecurity=False).digest())
        path = f"{target}?uploadId={upload_id}"
        self.do(
            f"put {key}",
            (f'"{digest.hexdigest()}-1"',),
            lambda: self.faces.object("POST", path, document)[0],
        )

    def change_object(self) -> None:
        key, faces = self.chance.choice(KEYS), self.faces
        target = f"/{BUCKET}/{self.shared.bucket}/{key}"
        body = f"{self.shared.bucket} {self.shared.fresh()}".encode()
        fresh = etag_of(body)

        def put(**conditions: str) -> Callable[[], Reply]:
            def work() -> Reply:
                outcome, _ = faces.object("PUT", target, body, **conditions)[0]
                if outcome == "ok":
                    self.etags[key] = fresh
                return outcome, None

            return work

        etag = self.etags.get(key, '"0"')
        name, arguments, work = self.chance.choice(
            (
                ("put", (fresh,), put()),
                ("put_new", (fresh,), put(if_none_match="*")),
                ("put_over", (etag, fresh), put(if_match=etag)),
                ("delete", (), lambda: faces.object("DELETE", target)[0]),
            )
        )
        self.do(f"{name} {key}", arguments, work)


WEIGHTS = {
    "create_bucket": 1,
    "delete_bucket": 1,
    "create_namespace": 4,
    "drop_namespace": 1,
    "drop_namespace_and_tables": 2,
    "list_tables": 3,
    "create_table": 12,
    "create_bare": 3,
    "drop_table": 4,
    "rename": 8,
    "load": 8,
    "exists": 2,
    "columns": 3,
    "mark": 6,
    "mark_both": 7,
    "append": 6,
    "register": 5,
    "delete_metadata": 2,
    "get_object": 5,
    "change_object": 8,
    "upload_object": 3,
}


WEIGHTS_OF_BUCKETS = {
    "create_bucket": 3,
    "delete_bucket": 4,
    "create_namespace": 5,
    "drop_namespace": 4,
    "drop_namespace_and_tables": 1,
    "list_tables": 3,
}
"""A bucket that never held a table can be deleted: a race against what is made in it."""


WEIGHTS_OF_FILES = {
    "create_table": 4,
    "drop_table": 4,
    "load": 5,
    "mark": 3,
    "register": 8,
    "delete_metadata": 8,
}
"""Tables that are made of files while the files are deleted."""


def etag_of(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def record(
    crew: Sequence[Faces],
    seed: str,
    *,
    operations: int,
    weights: Mapping[str, int] = WEIGHTS,
    call_after: tuple[int, Callable[[], None]] | None = None,
) -> list[Event]:
    """Let every client do some random operations; return all that happened.

    A client ends early where its server is gone. call_after: a number of events, and what is called
    as soon as so many have happened.
    """
    shared = Known(bucket=f"lin-{seed}", call_after=call_after)
    clients = [
        Client(number, faces, shared, random.Random(f"{seed} {number}"), weights)
        for number, faces in enumerate(crew)
    ]
    try:
        prepare(clients[0], weights)
    except LOST:
        return shared.events
    barrier = threading.Barrier(len(clients))

    def work(client: Client) -> None:
        barrier.wait()
        for _ in range(operations):
            try:
                client.anything()
            except LOST:
                return

    with ThreadPoolExecutor(len(clients)) as pool:
        for done in [pool.submit(work, client) for client in clients]:
            done.result()
    return shared.events


def prepare(client: Client, weights: Mapping[str, int]) -> None:
    """Make the table bucket, and a table in it where tables are worked on."""
    chance, client.chance = client.chance, Fixed((NAMESPACES[0], NAMES[0]))
    client.create_bucket()
    if "create_table" in weights:
        client.create_namespace()
        client.create_table()
    client.chance = chance


def observe(faces: Faces, seed: str, events: list[Event]) -> list[Event]:
    """Read everything once more, one after the other, and add it to a history."""
    shared = Known(bucket=f"lin-{seed}", events=list(events))
    client = Client(CLIENTS, faces, shared, random.Random(0), WEIGHTS)
    for namespace in NAMESPACES:
        client.chance = Fixed((namespace,))
        client.list_tables()
        for name in NAMES:
            client.chance = Fixed((namespace, name))
            client.load()
    for key in KEYS:
        client.chance = Fixed((key,))
        client.get_object()
    return shared.events


class Fixed(random.Random):
    """A chance that picks what it was told to."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        super().__init__(0)
        self.wanted = wanted

    def choice(self, seq: Any) -> Any:
        return next((each for each in seq if each in self.wanted), seq[0])


def check(events: Iterable[Event]) -> str | None:
    """Check a history, the table bucket and each object apart; return what is wrong with it."""
    parts: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        name, _, key = event.name.partition(" ")
        parts[key].append(dataclasses.replace(event, name=name))
    for key, part in parts.items():
        verdict: linearize.Verdict[Any]
        if key:
            verdict = linearize.check(part, initial=None, step=lake_model.object_step)
        else:
            verdict = linearize.check(part, initial=lake_model.Lake(), step=lake_model.lake_step)
        if not verdict.ok:
            return f"{key or 'lake'}: {linearize.explain(part, verdict)}"
    return None
