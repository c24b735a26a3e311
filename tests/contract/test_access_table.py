"""Every right that an operation needs, at every door: enough rights, and each of them missing.

A user with exactly the rights of a row gets the operation done. A user with everything else is
denied in the door's own words, once for each right of the row, and the server's records stay as
they were. The rows are in tests/kit/access_table.py.
"""

from __future__ import annotations

import collections
import dataclasses
import http.client
import itertools
import json
import re
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import botocore.exceptions
import pytest

from catalog import idents
from catalog.rest import native
from catalog.rest import rows as rest_rows
from s3tables import face as s3tables_face
from server.iam import face as iam_face
from server.s3 import rows as s3_rows
from server.sts import face as sts_face
from sql import shell, show_listings, stagerows
from sql.dialect import operations, parse
from storage import batch
from tests.kit import access_buckets, access_statements, access_table, aws, post_forms, programs

ACCOUNT = "000000000000"
OTHER_ACCOUNT = "111111111111"
BUCKET = f"arn:aws:s3tables:{aws.REGION}:{ACCOUNT}:bucket/lake"
NUMBERS = itertools.count(1)
IMPLEMENTED = ("yes", "partly")
UNCOMPARED = frozenset(
    {batch.Store.META, batch.Store.SESSIONS, batch.Store.RELEASED, batch.Store.BLOBS}
)
"""Counters, sessions of SQL, and the bodies that the storage's own sweep frees at any time."""
SHRINKING = frozenset({batch.Store.BODIES, batch.Store.IDEMPOTENCY})
"""Sweeps remove rows of what was deleted or answered before; only a request adds some."""


class Scene(dict[str, str]):
    """The names in a row's requests; each is set up when it is first used."""

    def __init__(self, server: aws.Server) -> None:
        super().__init__()
        self._server = server
        self._number = next(NUMBERS)

    def __missing__(self, name: str) -> str:
        value = self[name] = str(getattr(self, f"_set_up_{name}")())
        return value

    def staged(self, rows: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Return the rows of the stages and file formats in this scene's schemas."""
        return [
            (key, value)
            for key, value in rows
            if key.startswith((stagerows.all_of("stage"), stagerows.all_of("file format")))
            and re.fullmatch(
                f"[a-z]+{self._number}",
                stagerows.decode(value, stagerows.StagingRow).namespace[0],
            )
        ]

    def fill(self, value: Any) -> Any:
        """Return a value with the names in its texts."""
        if isinstance(value, str):
            return value.format_map(self)
        if isinstance(value, Mapping):
            return {name: self.fill(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        return value

    def _root(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = aws.signed(self._server, aws.ROOT, method, f"/iceberg/v1/{path}", body)
        assert status in (200, 204), answer
        return answer

    def _make(self, collection: str, name: str) -> Any:
        body: dict[str, Any] = {"name": name, "schema": access_table.SCHEMA}
        if collection == "views":
            body["view-version"] = self.fill(access_table.VIEW_VERSION)
        return self._root("POST", f"lake/namespaces/{self['n']}/{collection}", body)

    def _uuid_of(self, name: str, object_type: str = "tables") -> str:
        engine: Any = getattr(self._server.program, object_type)
        ident = idents.TableIdent(table_bucket="lake", namespace=(self["n"],), name=name)
        return str(engine.pointer(ident).object_uuid)

    def _put(self, key: str) -> str:
        self._server.client("s3").put_object(Bucket="lake", Key=key, Body=b"x")
        return key

    def _set_up_B(self) -> str:  # noqa: N802 - the name of the model
        return BUCKET

    def _set_up_url(self) -> str:
        return self._server.url

    def _set_up_uuid(self) -> uuid.UUID:
        return uuid.uuid4()

    def _set_up_n(self) -> str:
        self._root("POST", "lake/namespaces", {"namespace": [f"n{self._number}"]})
        self["n"] = f"n{self._number}"
        self["loc"] = self._make("tables", "t")["metadata"]["location"].removeprefix("s3://lake/")
        return self["n"]

    def _set_up_loc(self) -> str:
        return self["n"] and self["loc"]

    def _set_up_e(self) -> str:
        self._root("POST", "lake/namespaces", {"namespace": [f"e{self._number}"]})
        return f"e{self._number}"

    def _set_up_arn(self) -> str:
        return self["n"] and f"{BUCKET}/table/{self._uuid_of('t')}"

    def _set_up_key(self) -> str:
        return self._put(f"{self['loc']}/data/f.parquet")

    def _set_up_arn2(self) -> str:
        table = self._make("tables", "t2")["metadata"]
        location = table["location"].removeprefix("s3://lake/")
        self["key2"] = self._put(f"{location}/data/f.parquet")
        return f"{BUCKET}/table/{self._uuid_of('t2')}"

    def _set_up_key2(self) -> str:
        return self["arn2"] and self["key2"]

    def _set_up_view_arn(self) -> str:
        self._make("views", "v")
        return f"{BUCKET}/table/{self._uuid_of('v', 'views')}"

    def _set_up_v(self) -> str:
        return self["view_arn"] and "v"

    def _sql(self, text: str) -> Any:
        verdict, answer = answer_of_sql(self._server, aws.ROOT, self.fill(text))
        assert verdict == access_table.DOES, (text, verdict)
        return answer

    def _set_up_keyed(self) -> str:
        self._sql("alter table lake.{n}.t add unique (word)")
        return "t"

    def _set_up_reading_v(self) -> str:
        self._sql("create view lake.{n}.reading as select id from lake.{n}.t")
        return "reading"

    def _set_up_reading_arn(self) -> str:
        return f"{BUCKET}/table/{self._uuid_of(self['reading_v'], 'views')}"

    def _set_up_q(self) -> str:
        self._sql("create sequence lake.{n}.q")
        return "q"

    def _set_up_stage(self) -> str:
        self._sql("create stage lake.{n}.stage")
        self._sql("copy into @lake.{n}.stage/f from (select 1)")
        return "stage"

    def _set_up_format(self) -> str:
        self._sql("create file format lake.{n}.format type = csv")
        return "format"

    def _set_up_database(self) -> str:
        self._sql('create database "{new_bucket}"')
        return self["new_bucket"]

    def _set_up_full_database(self) -> str:
        self._sql('create table "{database}".public.t (id int)')
        return self["database"]

    def _set_up_T_of_new_bucket(self) -> str:  # noqa: N802 - the name of the model
        bucket = self["full_database"]
        ident = idents.TableIdent(table_bucket=bucket, namespace=("public",), name="t")
        object_uuid = self._server.program.tables.pointer(ident).object_uuid
        return f"{BUCKET.removesuffix('lake')}{bucket}/table/{object_uuid}"

    def _set_up_job(self) -> str:
        name = f"pipeline-{self._number}"
        path = f"/_api/v1/jobs?pipeline={name}&target=lake.{self['n']}.t"
        status, answer = aws.signed(self._server, aws.ROOT, "POST", path, service="execute-api")
        assert status == 201, answer
        return name

    def _set_up_new_w(self) -> str:
        return f"new_w{self._number}"

    def _set_up_w(self) -> str:
        self._sql(f"create warehouse w{self._number}")
        return f"w{self._number}"

    def _set_up_granted_r(self) -> str:
        self._sql('grant select on table lake.{n}.t to role "{r}"')
        return self["r"]

    def _set_up_gone_arn(self) -> str:
        self["gone"] = self._make("tables", "gone")["metadata-location"]
        arn = f"{BUCKET}/table/{self._uuid_of('gone')}"
        self._root("POST", f"lake/namespaces/{self['n']}/tables/gone/unregister")
        return arn

    def _set_up_dropped(self) -> str:
        self._make("tables", "dropped")
        object_uuid = self._uuid_of("dropped")
        self._root("DELETE", f"lake/namespaces/{self['n']}/tables/dropped")
        return object_uuid

    def _set_up_dropped_arn(self) -> str:
        return f"{BUCKET}/table/{self['dropped']}"

    def _set_up_d(self) -> str:
        namespace = f"d{self._number}"
        self._root("POST", "lake/namespaces", {"namespace": [namespace]})
        body = {"name": "t", "schema": access_table.SCHEMA}
        self._root("POST", f"lake/namespaces/{namespace}/tables", body)
        ident = idents.TableIdent(table_bucket="lake", namespace=(namespace,), name="t")
        object_uuid = self._server.program.tables.pointer(ident).object_uuid
        self["d_arn"] = f"{BUCKET}/table/{object_uuid}"
        path = f"/_api/v1/warehouses/lake/namespaces?namespace={namespace}"
        status, answer = aws.signed(self._server, aws.ROOT, "DELETE", path, service="execute-api")
        assert status == 200, answer
        return namespace

    def _set_up_d_arn(self) -> str:
        return self["d"] and self["d_arn"]

    def _set_up_gone_view_arn(self) -> str:
        self["gone_view"] = self._make("views", "gone")["metadata-location"]
        arn = f"{BUCKET}/table/{self._uuid_of('gone', 'views')}"
        self._root("DELETE", f"lake/namespaces/{self['n']}/views/gone")
        return arn

    def _set_up_token(self) -> str:
        self["n"]
        names = self.fill(access_table.TABLE)
        return str(self._server.client("s3tables").get_table(**names)["versionToken"])

    def _set_up_next_metadata(self) -> str:
        loaded = self._root("GET", f"lake/namespaces/{self['n']}/tables/t")
        key = f"{self['loc']}/metadata/00001-{uuid.uuid4()}.metadata.json"
        body = json.dumps(loaded["metadata"]).encode()
        self._server.client("s3").put_object(Bucket="lake", Key=key, Body=body)
        return f"s3://lake/{key}"

    def _set_up_new_b(self) -> str:
        return f"new-general-{self._number}"

    def _set_up_b(self) -> str:
        name = f"general-{self._number}"
        self._server.client("s3").create_bucket(Bucket=name)
        return name

    def _set_up_k(self) -> str:
        self._server.client("s3").put_object(Bucket=self["b"], Key="k", Body=b"x")
        return "k"

    def _set_up_general_policy(self) -> str:
        absent = {"AWS": f"arn:aws:iam::{ACCOUNT}:user/absent"}
        statement = allow("s3:ListBucket", f"arn:aws:s3:::{self['b']}")
        return document({**statement, "Principal": absent})

    def _set_up_new_bucket(self) -> str:
        return f"new-bucket-{self._number}"

    def _set_up_new_n(self) -> str:
        return f"new{self._number}"

    def _set_up_new_u(self) -> str:
        return f"new-user-{self._number}"

    _set_up_new_r = _set_up_new_p = _set_up_new_u

    def _set_up_u(self) -> str:
        name = f"user-{self._number}"
        self._server.client("iam").create_user(UserName=name)
        return name

    def _set_up_user_key(self) -> str:
        created = self._server.client("iam").create_access_key(UserName=self["u"])
        return str(created["AccessKey"]["AccessKeyId"])

    def _set_up_u_token(self) -> str:
        self._sql('alter user "{u}" add programmatic access token nightly')
        return "nightly"

    def _set_up_r(self) -> str:
        name = f"role-{self._number}"
        self._server.client("iam").create_role(
            RoleName=name, AssumeRolePolicyDocument=self["trust"]
        )
        return name

    def _set_up_closed_r(self) -> str:
        """A role that no user of the tests may assume."""
        root = {"AWS": f"arn:aws:iam::{OTHER_ACCOUNT}:root"}
        trust = document({"Effect": "Allow", "Principal": root, "Action": "sts:AssumeRole"})
        name = f"closed-{self._number}"
        self._server.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)
        return name

    def _set_up_p(self) -> str:
        created = self._server.client("iam").create_policy(
            PolicyName=f"policy-{self._number}", PolicyDocument=self["document"]
        )
        return str(created["Policy"]["Arn"])

    def _set_up_new_idp(self) -> str:
        return f"idp-{self._number}.example/new"

    def _set_up_idp(self) -> str:
        created = self._server.client("iam").create_open_id_connect_provider(
            Url=f"https://idp-{self._number}.example/old"
        )
        return str(created["OpenIDConnectProviderArn"])

    def _set_up_document(self) -> str:
        return document(allow("s3:GetObject", "*"))

    def _set_up_trust(self) -> str:
        root = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        return document({"Effect": "Allow", "Principal": root, "Action": "sts:AssumeRole"})

    def _policy(self, resource: str) -> str:
        absent = {"AWS": f"arn:aws:iam::{ACCOUNT}:user/absent"}
        return document({**allow("s3tables:GetTable", resource), "Principal": absent})

    def _set_up_bucket_policy(self) -> str:
        return self._policy(BUCKET)

    def _set_up_table_policy(self) -> str:
        return self._policy(self["arn"])


def document(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(action: str, resource: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


@dataclass(frozen=True, kw_only=True)
class Doors:
    """One server, and the clients of the users whose policies each test sets."""

    server: aws.Server
    keys: dict[str, aws.Keys]

    def grant(self, user: str, *statements: Mapping[str, Any]) -> None:
        """Let a user's only policy have these statements; without any, let it have no policy."""
        iam = self.server.client("iam")
        policy = {"UserName": user, "PolicyName": "p"}
        if statements:
            iam.put_user_policy(**policy, PolicyDocument=document(*statements))
        elif iam.list_user_policies(UserName=user)["PolicyNames"]:
            iam.delete_user_policy(**policy)

    def verdict(self, keys: aws.Keys, request: access_table.Request, scene: Scene) -> str:
        """What the holder of keys is answered."""
        verdict, answer = self._answer(keys, request, scene)
        if verdict == access_table.DOES and request.lists:
            listed = scene.fill(request.lists)
            return access_table.DOES if listed in texts_in(answer) else access_table.HIDES
        return verdict

    def _answer(
        self, keys: aws.Keys, request: access_table.Request, scene: Scene
    ) -> tuple[str, Any]:
        what, body = scene.fill(request.what), scene.fill(request.body)
        match request.door:
            case "rest":
                return answer_of_json(
                    *aws.signed(self.server, keys, request.name, f"/iceberg/v1/{what}", body)
                )
            case "native":
                path = what if what.startswith("/") else f"/_api/v1/{what}"
                return answer_of_json(
                    *aws.signed(self.server, keys, request.name, path, body, service="execute-api")
                )
            case "sql":
                return answer_of_sql(self.server, keys, what)
        if request.name == "PostObject":
            return answer_of_form(self.server, keys, what["Bucket"], what["Key"])
        client = self.server.client(request.door, keys)
        methods = client.meta.method_to_api_mapping.items()
        (name,) = (method for method, operation in methods if operation == request.name)
        return answer_of_aws(lambda: getattr(client, name)(**what))


def answer_of_sql(server: aws.Server, keys: aws.Keys, text: str) -> tuple[str, Any]:
    """What a new session of the holder of keys is answered."""
    client = shell.Client(url=server.url)
    client.login(user=keys.access_key, password=keys.secret_key, database="", schema="")
    try:
        (answer,) = client.query(text)
    except shell.ShellError as error:
        return str(error).partition(":")[0], None
    finally:
        client.logout()
    return access_table.DOES, answer["rowset"]


def answer_of_form(
    server: aws.Server, keys: aws.Keys, bucket: str, key: str
) -> tuple[str, dict[str, Any] | None]:
    """What a form that the holder of keys has signed is answered: 204 has no body."""
    proof = post_forms.signed(keys, [{"bucket": bucket}, {"key": key}], version=4)
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    connection.request(
        "POST",
        f"/{bucket}",
        post_forms.encode({"key": key, **proof}, b"x"),
        {"content-type": f"multipart/form-data; boundary={post_forms.BOUNDARY}"},
    )
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    if response.status == 204:
        return access_table.DOES, {}
    return f"{response.status} {body.partition('<Code>')[2].partition('<')[0]}", None


def texts_in(value: Any) -> set[str]:
    """All texts in an answer, in lower case: SQL shows names so that they read as written."""
    if isinstance(value, str):
        return {value.lower()}
    if isinstance(value, Mapping):
        value = list(value.values())
    return set().union(*map(texts_in, value)) if isinstance(value, list) else set()


def answer_of_aws(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        answer = call()
    except botocore.exceptions.ClientError as error:
        response = error.response
        status = response["ResponseMetadata"]["HTTPStatusCode"]
        return f"{status} {response['Error']['Code']}", None
    (code,) = {f"403 {error['Code']}" for error in answer.get("Errors", ())} or {access_table.DOES}
    return code, answer


def answer_of_json(status: int, answer: Any) -> tuple[str, Any]:
    if status < 300:
        return access_table.DOES, answer
    return f"{status} {answer['error']['type']}" if answer else str(status), None


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("access") / "data"
    everything = {"Version": "2012-10-17", "Statement": [access_table.EVERYTHING]}
    others = programs.users({"foreigner": [everything], "stranger": []})
    others = {
        name: dataclasses.replace(user, account=OTHER_ACCOUNT) for name, user in others.items()
    }
    with aws.serving(
        folder, users=[*others.values()], sql_workers=0, encrypted_disk=True
    ) as server:
        iam = server.client("iam")
        keys = {"root": aws.ROOT, **{name: aws.keys_of(name) for name in others}}
        for name in ("exactly", "all_but"):
            iam.create_user(UserName=name)
            keys[name] = aws.Keys.of(iam.create_access_key(UserName=name))
        yield Doors(server=server, keys=keys)


def exactly(rights: tuple[tuple[str, str], ...], scene: Scene) -> list[dict[str, Any]]:
    """Statements that allow each action on its resource and nothing else."""
    statements = []
    for action, name in rights:
        arn, keys = scene.fill(list(access_table.RESOURCES[name]))
        condition = {"Condition": {"StringEquals": keys}} if keys else {}
        statements.append(allow(action, arn, **condition))
    return statements


def all_but(right: tuple[str, str], scene: Scene) -> list[dict[str, Any]]:
    """Statements that allow everything but one action on one resource."""
    action, name = right
    arn, keys = scene.fill(list(access_table.RESOURCES[name]))
    statements: list[dict[str, Any]] = [{"Effect": "Allow", "NotAction": action, "Resource": "*"}]
    if arn != "*":
        statements.append({"Effect": "Allow", "Action": action, "NotResource": arn})
    for key, value in keys.items():
        statements.append(allow(action, arn, Condition={"StringNotEquals": {key: value}}))
    return statements


def ids_of_deleted_buckets(server: aws.Server) -> tuple[bytes, ...]:
    """The first bytes of the rows that a sweep removes at any time."""
    with server.program.storage.index.view() as view:
        rows = list(view.scan(batch.Store.RELEASED, b"b", b"c"))
    return tuple(int(key[9:]).to_bytes(4, "big") for key, _ in rows)


def records_of(
    server: aws.Server, *, but: tuple[bytes, ...]
) -> dict[batch.Store, list[tuple[bytes, bytes]]]:
    """Everything that the server's index holds, without the rows that begin so."""
    with server.program.storage.index.view() as view:
        return {
            store: [row for row in view.scan(store, b"") if not row[0].startswith(but)]
            for store in batch.Store
            if store not in UNCOMPARED
        }


ALL_ROWS = (
    *access_table.ROWS,
    *access_table.S3TABLES_ROWS,
    *access_table.IAM_ROWS,
    *access_buckets.S3_ROWS,
    *access_buckets.STS_ROWS,
    *access_statements.SQL_ROWS,
)
CASES = [
    pytest.param(row, request, id=f"{row.name}, {request.door} {number}")
    for row in ALL_ROWS
    for number, request in enumerate(row.requests)
]


@pytest.mark.parametrize(("row", "request_"), CASES)
def test_a_request_needs_each_of_its_rights_and_no_further_one(
    doors: Doors, row: access_table.Row, request_: access_table.Request
) -> None:
    scene = Scene(doors.server)
    statements = exactly(row.rights, scene)
    scene.fill([request_.what, request_.body, request_.lists])
    denials = request_.denials or (access_table.DENIED[request_.door],) * len(row.rights)
    is_head = request_.name in ("HEAD", "HeadObject", "HeadBucket")
    uncompared = (b"uall_but", *ids_of_deleted_buckets(doors.server))
    before = records_of(doors.server, but=uncompared)
    for right, denial in zip(row.rights, denials, strict=True):
        doors.grant("all_but", *all_but(right, scene))
        verdict = doors.verdict(doors.keys["all_but"], request_, scene)
        assert verdict.split()[0] == "403" if is_head else verdict == denial, (right, verdict)
    for store, rows in records_of(doors.server, but=uncompared).items():
        if store in SHRINKING:
            assert set(rows) <= set(before[store]), store
        elif store is stagerows.STORE:
            # A sweep drops those of schemas that are gone with their scenes, at any time.
            assert scene.staged(rows) == scene.staged(before[store])
            added = {key for key, _ in rows} - {key for key, _ in before[store]}
            assert all(key.startswith(stagerows.ALL_DROPPED) for key in added)
        else:
            assert rows == before[store], store
    doors.grant("exactly", *statements)
    assert doors.verdict(doors.keys["exactly"], request_, scene) == request_.allowed


def operation_of(request: access_table.Request) -> str:
    """The name of a request's operation."""
    if request.door == "rest":
        path = urlsplit(request.what).path
        row = rest_rows.ROUTES.find(request.name, ["v1", *path.split("/")])
        return "" if row is None else row.name
    if request.door == "native":
        parts = urlsplit(request.what).path.strip("/").split("/")
        for native_row in native.ROWS:
            template = native_row.parts[2:]
            if native_row.method == request.name and len(template) == len(parts):
                pairs = zip(template, parts, strict=True)
                if all(part == name or part.startswith("{") for part, name in pairs):
                    return native_row.operation.name
    return request.name


@pytest.mark.parametrize(
    ("door", "operations", "unlisted"),
    [
        ("s3", {row.operation.name for row in s3_rows.ROWS if row.status in IMPLEMENTED}, set()),
        ("s3tables", set(s3tables_face.ROWS), set()),
        ("iam", set(iam_face.ROWS), set()),
        ("sts", set(sts_face.ROWS), {"AssumeRoleWithWebIdentity"}),
        ("rest", {row.name for row in rest_rows.ROWS}, {"getToken"}),
        ("native", {row.operation.name for row in native.ROWS} | {"GET"}, set()),
    ],
)
def test_every_operation_has_a_row(door: str, operations: set[str], unlisted: set[str]) -> None:
    requests = [request for row in ALL_ROWS for request in row.requests if request.door == door]
    assert {operation_of(request) for request in requests} == operations - unlisted


def test_every_statement_of_sql_has_a_row() -> None:
    scene = collections.defaultdict(lambda: "x")
    texts = [request.what for row in ALL_ROWS for request in row.requests if request.door == "sql"]
    texts += access_statements.NEEDS_NOTHING
    spelled = {form_of(parse.parse(text.format_map(scene))) for text in texts}
    assert spelled == set(forms())


FORMS: Mapping[type, str] = {
    operations.ChangeRows: "statement",
    operations.Use: "object_type",
    operations.Show: "listing",
    operations.Describe: "object_type",
    operations.DropIdentity: "object_type",
    operations.ShowGrants: "form",
    operations.AlterStaging: "object_type",
    operations.DropStaging: "object_type",
    operations.DescribeStaging: "object_type",
}
"""Statements of several forms: the attribute that says which."""


def form_of(operation: Any) -> tuple[str, str]:
    """A statement's class, and its form."""
    name = type(operation).__name__
    if isinstance(operation, operations.AlterTable):
        return name, type(operation.change).__name__
    attribute = FORMS.get(type(operation))
    return name, "" if attribute is None else getattr(operation, attribute)


def forms() -> Iterator[tuple[str, str]]:
    """Every class of the dialect's statements, with its forms."""
    for statement in typing.get_args(operations.Operation):
        if statement is operations.AlterTable:
            changes = typing.get_args(typing.get_type_hints(statement)["change"])
            values = [each.__name__ for each in changes]
        elif statement is operations.Show:
            values = list(show_listings.LISTINGS)
        else:
            hints = typing.get_type_hints(statement)
            values = list(typing.get_args(hints.get(FORMS.get(statement, "")))) or [""]
        yield from ((statement.__name__, value) for value in values)


@pytest.mark.parametrize("text", access_statements.NEEDS_NOTHING)
def test_a_statement_without_a_row_needs_no_right(doors: Doors, text: str) -> None:
    doors.grant("exactly")
    assert answer_of_sql(doors.server, doors.keys["exactly"], text)[0] == access_table.DOES


def caller_of(
    doors: Doors, scene: Scene, situation: access_table.Situation
) -> tuple[aws.Keys, str]:
    """Set the identity policies of a situation; return the caller's keys and ARN."""
    identity = scene.fill(list(situation.identity))
    match situation.caller:
        case "user":
            doors.grant("exactly", *identity)
            return doors.keys["exactly"], f"arn:aws:iam::{ACCOUNT}:user/exactly"
        case "root":
            return aws.ROOT, f"arn:aws:iam::{ACCOUNT}:root"
        case "session":
            return session_of(doors, scene, situation, identity)
        case name:
            return doors.keys[name], f"arn:aws:iam::{OTHER_ACCOUNT}:user/{name}"


def session_of(
    doors: Doors, scene: Scene, situation: access_table.Situation, identity: Any
) -> tuple[aws.Keys, str]:
    """Assume a role that has identity statements, with the session policy of a situation."""
    role, arn = scene["r"], f"arn:aws:iam::{ACCOUNT}:role/{scene['r']}"
    if identity:
        doors.server.client("iam").put_role_policy(
            RoleName=role, PolicyName="p", PolicyDocument=document(*identity)
        )
    doors.grant("exactly", allow("sts:AssumeRole", arn))
    more = {}
    if situation.session is not None:
        more["Policy"] = document(*scene.fill(list(situation.session)))
    sts = doors.server.client("sts", doors.keys["exactly"])
    return aws.Keys.of(sts.assume_role(RoleArn=arn, RoleSessionName="night", **more)), arn


@contextmanager
def resource_policies(
    doors: Doors, scene: Scene, situation: access_table.Situation, caller: str
) -> Iterator[None]:
    """Put the policies of a situation on the table bucket and the table."""
    client = doors.server.client("s3tables")
    bucket, table = scene.fill(access_table.BUCKET), scene.fill(access_table.TABLE)

    def policy_of(statements: Any) -> str:
        principal = {"Principal": {"AWS": caller}}
        return document(*({**principal, **each} for each in scene.fill(list(statements))))

    if situation.bucket:
        client.put_table_bucket_policy(**bucket, resourcePolicy=policy_of(situation.bucket))
    if situation.table:
        client.put_table_policy(**table, resourcePolicy=policy_of(situation.table))
    try:
        yield
    finally:
        client.delete_table_bucket_policy(**bucket)
        client.delete_table_policy(**table)


@contextmanager
def tagged(doors: Doors, scene: Scene, situation: access_table.Situation) -> Iterator[None]:
    """Put the tags of a situation on the table, its bucket and the caller."""
    tables, iam = doors.server.client("s3tables"), doors.server.client("iam")
    listed = [
        {"Key": key, "Value": value} for key, value in situation.tags.get("caller", {}).items()
    ]
    keys = [tag["Key"] for tag in listed]
    is_role = situation.caller == "session"
    if listed and is_role:
        iam.tag_role(RoleName=scene["r"], Tags=listed)
    elif listed:
        iam.tag_user(UserName="exactly", Tags=listed)
    for name, arn in (("table", scene["arn"]), ("bucket", BUCKET)):
        if name in situation.tags:
            tables.tag_resource(resourceArn=arn, tags=situation.tags[name])
    try:
        yield
    finally:
        if listed and not is_role:
            iam.untag_user(UserName="exactly", TagKeys=keys)
        if "bucket" in situation.tags:
            tables.untag_resource(resourceArn=BUCKET, tagKeys=[*situation.tags["bucket"]])


@pytest.mark.parametrize("situation", access_table.SITUATIONS, ids=lambda each: each.name)
def test_the_same_policies_decide_alike_at_every_door(
    doors: Doors, situation: access_table.Situation
) -> None:
    scene = Scene(doors.server)
    scene.fill("{key} {arn2} {e}")
    keys, arn = caller_of(doors, scene, situation)
    has_password = situation.caller != "session"
    with resource_policies(doors, scene, situation, arn), tagged(doors, scene, situation):
        verdicts = {
            door: doors.verdict(keys, request, scene)
            for door, request in access_table.READS.items()
            if door != "sql" or has_password
        }
    for door, verdict in verdicts.items():
        denied, _, hidden = access_table.ANSWERS[door]
        assert verdict in ({access_table.DOES} if situation.allows else {denied, hidden}), door


@pytest.mark.parametrize("door", access_table.READS)
def test_a_door_answers_what_is_denied_or_absent_in_its_own_words(
    doors: Doors, door: access_table.Door
) -> None:
    scene = Scene(doors.server)
    read, absent = access_table.READS[door], access_table.ABSENT[door]
    scene.fill([read.what, absent.what])
    keys = doors.keys["exactly"]
    denied, not_found, hidden = access_table.ANSWERS[door]
    listing = exactly(access_table.LISTING, scene)
    doors.grant("exactly", *listing)
    assert doors.verdict(keys, absent, scene) == not_found
    assert doors.verdict(keys, read, scene) == (access_table.DOES if door == "s3" else denied)
    doors.grant("exactly", allow("s3:ListAllMyBuckets", "*"))
    assert doors.verdict(keys, absent, scene) == hidden
    assert doors.verdict(keys, read, scene) == hidden
