"""Policies of table buckets and tables: what they allow and deny at every face of one server.

The users' own policies allow nothing, or everything; the policy that is put decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from server import config
from sql import shell
from storage import batch, settings
from tests.kit import rest, waits
from tests.kit import s3 as kit

ACCOUNT = kit.ACCOUNT
OTHER_ACCOUNT = "111111111111"
BUCKET = f"arn:aws:s3tables:{kit.REGION}:{ACCOUNT}:bucket/lake"
EVERYTHING = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
USERS = tuple(
    config.User(
        name=name,
        access_key=f"{name.upper()}KEY",
        secret_key=f"{name}-secret",
        policies=policies,
        **({"account": account} if account else {}),
    )
    for name, policies, account in (
        ("nothing", (), None),
        ("everything", (EVERYTHING,), None),
        ("foreigner", (EVERYTHING,), OTHER_ACCOUNT),
    )
)


@dataclass
class Doors:
    """One server, and its clients as each user."""

    place: kit.ObjectStore
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.place.host

    @property
    def port(self) -> int:
        return self.place.port

    def keys(self, user: str) -> tuple[str, str]:
        if user == "root":
            return self.place.access_key, self.place.secret_key
        return f"{user.upper()}KEY", f"{user}-secret"

    def client(self, service: str, user: str = "root") -> Any:
        access_key, secret_key = self.keys(user)
        return boto3.client(
            service,
            endpoint_url=self.place.url,
            region_name=kit.REGION,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=botocore.config.Config(
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
                parameter_validation=False,
            ),
        )

    def catalog(self, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of the REST catalog's answer."""
        server: Any = _Keys(self.host, self.port, *self.keys(user))
        client = rest.Client(server, token=self.tokens.get(user))
        self.tokens[user] = client.token
        with client:
            return client.ask(method, path, body)

    def sql(self, user: str, text: str) -> int:
        """403 for a statement that is refused for want of rights, 200 for one that works."""
        client = shell.Client(url=self.place.url)
        access_key, secret_key = self.keys(user)
        client.login(user=access_key, password=secret_key, database="", schema="")
        try:
            list(client.query(text))
        except shell.ShellError as error:
            refusals = ("not authorized", "does not exist")
            return 403 if any(each in str(error) for each in refusals) else 500
        finally:
            client.logout()
        return 200

    def put_policy(self, *statements: Mapping[str, Any], table: str | None = None) -> None:
        text = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        client = self.client("s3tables")
        if table is None:
            client.put_table_bucket_policy(tableBucketARN=BUCKET, resourcePolicy=text)
        else:
            client.put_table_policy(**named(table), resourcePolicy=text)

    def drop_policies(self, *tables: str) -> None:
        client = self.client("s3tables")
        client.delete_table_bucket_policy(tableBucketARN=BUCKET)
        for table in tables:
            client.delete_table_policy(**named(table))

    def arn(self, table: str) -> str:
        return str(self.client("s3tables").get_table(**named(table))["tableARN"])


@dataclass(frozen=True)
class _Keys:
    host: str
    port: int
    access_key: str
    secret_key: str


def named(table: str) -> dict[str, str]:
    return {"tableBucketARN": BUCKET, "namespace": "ns", "name": table}


def statement(effect: str, action: Any, *users: str, resource: Any = None) -> dict[str, Any]:
    accounts = {"foreigner": OTHER_ACCOUNT}
    return {
        "Effect": effect,
        "Principal": {
            "AWS": [f"arn:aws:iam::{accounts.get(user, ACCOUNT)}:user/{user}" for user in users]
        },
        "Action": action,
        "Resource": resource or [BUCKET, f"{BUCKET}/table/*"],
    }


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with kit.serve(tmp_path_factory.mktemp("policies") / "data", users=USERS) as place:
        doors = Doors(place)
        doors.catalog("root", "POST", "namespaces", {"namespace": ["ns"]})
        for name in ("t", "other"):
            response = doors.catalog(
                "root", "POST", "namespaces/ns/tables", {"name": name, "schema": rest.SCHEMA}
            )
            assert response[0] == 200
            doors.client("s3").put_object(Bucket="lake", Key=f"ns/{name}/data/f.parquet", Body=b"x")
        yield doors


@pytest.fixture(autouse=True)
def _no_policy_stays(doors: Doors) -> Iterator[None]:
    yield
    doors.drop_policies("t", "other")


def status_of(call: Callable[..., Any], **members: Any) -> int:
    try:
        answer = call(**members)
    except ClientError as error:
        return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return int(answer["ResponseMetadata"]["HTTPStatusCode"])


TABLE = "namespaces/ns/tables/t"


def touched() -> dict[str, Any]:
    """Return a commit that changes something."""
    update = {"action": "set-properties", "updates": {"touched": uuid.uuid4().hex}}
    return {"requirements": [], "updates": [update]}


READS: dict[str, Callable[[Doors, str], int]] = {
    "s3tables GetTable": lambda doors, user: status_of(
        doors.client("s3tables", user).get_table, **named("t")
    ),
    "s3tables GetTableBucket": lambda doors, user: status_of(
        doors.client("s3tables", user).get_table_bucket, tableBucketARN=BUCKET
    ),
    "REST load": lambda doors, user: doors.catalog(user, "GET", TABLE)[0],
    "REST namespaces": lambda doors, user: doors.catalog(user, "GET", "namespaces")[0],
    "REST plan": lambda doors, user: doors.catalog(user, "POST", f"{TABLE}/plan", {})[0],
    "S3 GetObject": lambda doors, user: status_of(
        doors.client("s3", user).get_object, Bucket="lake", Key="ns/t/data/f.parquet"
    ),
    "S3 ListObjectsV2": lambda doors, user: status_of(
        doors.client("s3", user).list_objects_v2, Bucket="lake", Prefix="ns/t/"
    ),
    "SQL": lambda doors, user: doors.sql(user, "select count(*) from lake.ns.t"),
}
WRITES: dict[str, Callable[[Doors, str], int]] = {
    "s3tables CreateNamespace": lambda doors, user: status_of(
        doors.client("s3tables", user).create_namespace,
        tableBucketARN=BUCKET,
        namespace=[f"n{uuid.uuid4().hex}"],
    ),
    "s3tables TagResource": lambda doors, user: status_of(
        doors.client("s3tables", user).tag_resource, resourceArn=doors.arn("t"), tags={"a": "b"}
    ),
    "REST commit": lambda doors, user: doors.catalog(user, "POST", TABLE, touched())[0],
    "REST create": lambda doors, user: doors.catalog(
        user,
        "POST",
        "namespaces/ns/tables",
        {"name": f"t{uuid.uuid4().hex}", "schema": rest.SCHEMA},
    )[0],
    "S3 PutObject": lambda doors, user: status_of(
        doors.client("s3", user).put_object,
        Bucket="lake",
        Key=f"ns/t/data/{uuid.uuid4().hex}.parquet",
        Body=b"y",
    ),
    "SQL": lambda doors, user: doors.sql(
        user, f"create table lake.ns.c{uuid.uuid4().hex} (id int)"
    ),
}


@pytest.mark.parametrize("door", [*READS, *(f"write: {name}" for name in WRITES)])
def test_a_bucket_policy_allows_and_denies_at_every_face(doors: Doors, door: str) -> None:
    ask = WRITES[door.removeprefix("write: ")] if door.startswith("write: ") else READS[door]
    assert ask(doors, "nothing") == 403
    assert ask(doors, "everything") in (200, 204)
    doors.put_policy(
        statement("Allow", "s3tables:*", "nothing"), statement("Deny", "s3tables:*", "everything")
    )
    assert ask(doors, "nothing") in (200, 204)
    if door != "REST namespaces":  # a listing leaves out what the caller may not see
        assert ask(doors, "everything") == 403
    doors.drop_policies()
    assert ask(doors, "nothing") == 403
    assert ask(doors, "everything") in (200, 204)


def test_listings_show_what_the_bucket_policy_lets_see(doors: Doors) -> None:
    def seen(user: str) -> tuple[list[Any], list[Any]]:
        listed = doors.client("s3tables", user)
        namespaces = doors.catalog(user, "GET", "namespaces")[1].get("namespaces", [])
        tables = listed.list_tables(tableBucketARN=BUCKET, namespace="ns")["tables"]
        names = [table["name"] for table in tables if table["name"] in ("t", "other")]
        return [namespace for namespace in namespaces if namespace == ["ns"]], names

    listing = ["s3tables:ListTables", "s3tables:ListNamespaces", "s3tables:GetTableBucket"]
    table_arn = doors.arn("t")
    doors.put_policy(
        statement("Allow", listing, "nothing"),
        statement("Allow", "s3tables:GetTable", "nothing", resource=table_arn),
    )
    assert seen("nothing") == ([], ["t"])
    doors.put_policy(
        statement("Allow", [*listing, "s3tables:GetNamespace", "s3tables:GetTable"], "nothing")
    )
    assert seen("nothing") == ([["ns"]], ["other", "t"])


@pytest.mark.parametrize("door", sorted(READS.keys() - {"s3tables GetTableBucket"}))
def test_a_table_policy_denies_its_table_alone(doors: Doors, door: str) -> None:
    doors.put_policy(
        statement("Deny", "s3tables:*", "everything", resource=doors.arn("other")), table="other"
    )
    assert READS[door](doors, "everything") in (200, 204)
    doors.put_policy(
        statement("Deny", "s3tables:*", "everything", resource=doors.arn("t")), table="t"
    )
    if door != "REST namespaces":
        assert READS[door](doors, "everything") == 403


@pytest.mark.parametrize("door", ["s3tables GetTable", "REST load", "S3 GetObject"])
def test_a_table_policy_allows_its_table_alone(doors: Doors, door: str) -> None:
    allowed = ["s3tables:GetTable", "s3tables:GetTableMetadataLocation", "s3tables:GetTableData"]
    other = statement("Allow", allowed, "nothing", resource=doors.arn("other"))
    doors.put_policy(other, table="other")
    assert READS[door](doors, "nothing") == 403
    doors.put_policy({**other, "Resource": doors.arn("t")}, table="t")
    assert READS[door](doors, "nothing") == 200


@pytest.mark.parametrize("door", ["s3tables GetTable", "REST load", "S3 GetObject"])
def test_another_account_needs_the_resources_policy_and_its_own(doors: Doors, door: str) -> None:
    assert READS[door](doors, "foreigner") == 403
    doors.put_policy(statement("Allow", "s3tables:*", "foreigner"))
    assert READS[door](doors, "foreigner") == 200
    doors.put_policy(
        statement("Allow", "s3tables:*", "foreigner"),
        statement("Deny", "s3tables:*", "foreigner", resource=f"{BUCKET}/table/*"),
    )
    assert READS[door](doors, "foreigner") == 403


def test_a_deny_ends_vended_keys_at_once(doors: Doors) -> None:
    server: Any = _Keys(doors.host, doors.port, *doors.keys("everything"))
    with rest.Client(server) as client:
        status, loaded = client.ask(
            "GET", TABLE, None, {"x-iceberg-access-delegation": "vended-credentials"}
        )
    assert status == 200
    (credential,) = loaded["storage-credentials"]
    vended = boto3.client(
        "s3",
        endpoint_url=doors.place.url,
        region_name=kit.REGION,
        aws_access_key_id=credential["config"]["s3.access-key-id"],
        aws_secret_access_key=credential["config"]["s3.secret-access-key"],
        aws_session_token=credential["config"]["s3.session-token"],
        config=botocore.config.Config(s3={"addressing_style": "path"}),
    )
    where = {"Bucket": "lake", "Key": "ns/t/data/f.parquet"}
    assert vended.get_object(**where)["Body"].read() == b"x"
    doors.put_policy(
        statement("Deny", "s3tables:GetTableData", "everything", resource=doors.arn("t")), table="t"
    )
    assert status_of(vended.get_object, **where) == 403


def test_a_table_that_is_denied_is_not_read_through_another_tables_metadata(doors: Doors) -> None:
    """The confused deputy: the server reads manifests with its own rights."""
    doors.put_policy(
        statement("Deny", "s3tables:GetTableData", "everything", resource=doors.arn("other")),
        table="other",
    )
    stolen = "s3://lake/ns/other/data/f.parquet"
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": 2_000_000_000_000,
        "manifest-list": stolen,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    commit = {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot}]}
    status, answer = doors.catalog("everything", "POST", TABLE, commit)
    assert (status, answer["error"]["type"]) == (403, "ForbiddenException")
    doors.drop_policies("other")
    # Allowed again, the same commit is judged by its own rules.
    assert doors.catalog("everything", "POST", TABLE, commit)[0] == 200


def test_a_policy_reads_back_as_it_was_put_and_survives_a_rename(doors: Doors) -> None:
    client = doors.client("s3tables")
    doors.catalog("root", "POST", "namespaces/ns/tables", {"name": "moving", "schema": rest.SCHEMA})
    arn = doors.arn("moving")
    text = json.dumps(
        {"Version": "2012-10-17", "Statement": statement("Deny", "*", "everything", resource=arn)},
        indent=3,
    )
    client.put_table_policy(**named("moving"), resourcePolicy=text)
    assert client.get_table_policy(**named("moving"))["resourcePolicy"] == text
    client.rename_table(**named("moving"), newName="moved")
    assert client.get_table_policy(**named("moved"))["resourcePolicy"] == text
    assert status_of(doors.client("s3tables", "everything").get_table, **named("moved")) == 403
    client.delete_table_policy(**named("moved"))
    client.delete_table_policy(**named("moved"))
    for call, members in (
        (client.get_table_policy, named("moved")),
        (client.get_table_bucket_policy, {"tableBucketARN": BUCKET}),
    ):
        with pytest.raises(ClientError) as caught:
            call(**members)
        assert caught.value.response["Error"]["Code"] == "NotFoundException"
    assert status_of(doors.client("s3tables", "everything").get_table, **named("moved")) == 200


DENY = statement("Deny", "s3tables:*", "everything")


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("{", "this is not JSON"),
        ("[]", "a policy is a JSON object"),
        (json.dumps(json.dumps({"Statement": DENY})), "a policy is a JSON object"),
        ({"Version": "2012-10-17"}, "Statement: is missing"),
        ({"Statement": {**DENY, "Effect": "Perhaps"}}, "Statement.Effect"),
        ({"Statement": {**DENY, "Action": "s3tables:GetTabel"}}, "did you mean"),
        ({"Statement": {**DENY, "Action": "s3:GetObject"}}, "Statement.Action"),
        ({"Statement": [DENY, {**DENY, "Resource": "arn:aws:s3:::lake"}]}, "Statement[1].Resource"),
        ({"Statement": {**DENY, "Resource": BUCKET.replace("lake", "lak")}}, "Statement.Resource"),
        ({"Statement": {**DENY, "Condition": {"StringLik": {"aws:username": "a"}}}}, "no operator"),
        ({"Statement": {**DENY, "Principal": {"AWS": "arn:aws:iam::*:user/x"}}}, "no wildcards"),
        (
            {
                "Statement": {
                    "Effect": "Allow",
                    "NotPrincipal": {"AWS": ACCOUNT},
                    "Action": "s3tables:GetTable",
                    "Resource": BUCKET,
                }
            },
            "NotPrincipal",
        ),
    ],
)
def test_a_malformed_policy_is_refused_with_its_place_and_changes_nothing(
    doors: Doors, policy: Any, reason: str
) -> None:
    doors.put_policy(DENY)
    before = doors.client("s3tables").get_table_bucket_policy(tableBucketARN=BUCKET)
    text = policy if isinstance(policy, str) else json.dumps(policy)
    with pytest.raises(ClientError) as caught:
        doors.client("s3tables").put_table_bucket_policy(tableBucketARN=BUCKET, resourcePolicy=text)
    error = caught.value.response["Error"]
    assert error["Code"] == "BadRequestException"
    assert error["Message"].startswith("The specified resource policy is not valid")
    assert reason in error["Message"]
    after = doors.client("s3tables").get_table_bucket_policy(tableBucketARN=BUCKET)
    assert after["resourcePolicy"] == before["resourcePolicy"]


def test_a_tables_policy_names_that_table_alone(doors: Doors) -> None:
    for resource in (BUCKET, doors.arn("other")):
        text = json.dumps({"Statement": {**DENY, "Resource": resource}})
        with pytest.raises(ClientError, match=r"Statement\.Resource"):
            doors.client("s3tables").put_table_policy(**named("t"), resourcePolicy=text)


@pytest.mark.parametrize("size", [0, 20_481])
def test_the_length_of_a_policy_is_that_of_the_model(doors: Doors, size: int) -> None:
    with pytest.raises(ClientError, match="Member must have length"):
        doors.client("s3tables").put_table_bucket_policy(
            tableBucketARN=BUCKET, resourcePolicy="x" * size
        )


def test_a_public_policy_is_refused_and_one_for_fixed_callers_is_not(doors: Doors) -> None:
    public = {**statement("Allow", "s3tables:GetTableData"), "Principal": "*"}
    client = doors.client("s3tables")
    with pytest.raises(ClientError) as caught:
        client.put_table_bucket_policy(
            tableBucketARN=BUCKET, resourcePolicy=json.dumps({"Statement": public})
        )
    assert caught.value.response["Error"]["Code"] == "ForbiddenException"
    fixed = {**public, "Condition": {"StringEquals": {"aws:PrincipalAccount": ACCOUNT}}}
    doors.put_policy(fixed)
    assert READS["S3 GetObject"](doors, "nothing") == 200
    connection = http.client.HTTPConnection(doors.host, doors.port, timeout=60)
    connection.request("GET", "/lake/" + urllib.parse.quote("ns/t/data/f.parquet"))
    assert connection.getresponse().status == 403
    connection.close()


def test_only_those_with_the_action_may_put_a_policy(doors: Doors) -> None:
    members = {"tableBucketARN": BUCKET, "resourcePolicy": json.dumps({"Statement": DENY})}
    assert status_of(doors.client("s3tables", "nothing").put_table_bucket_policy, **members) == 403
    doors.put_policy(
        statement("Allow", "s3tables:*", "nothing"),
        statement("Deny", "s3tables:PutTableBucketPolicy", "nothing", "everything"),
    )
    for user in ("nothing", "everything"):
        assert status_of(doors.client("s3tables", user).put_table_bucket_policy, **members) == 403
    # An explicit Deny binds all but the root.
    assert status_of(doors.client("s3tables").put_table_bucket_policy, **members) == 200


# A policy that is put between a request's judgement and its transaction.

DENY_ALL = statement("Deny", "s3tables:*", "everything")


@pytest.mark.parametrize(
    "door",
    [
        "s3tables CreateNamespace",
        "s3tables TagResource",
        "REST commit",
        "REST create",
        "REST create namespace",
        "REST drop namespace",
        "REST rename",
        "REST create view",
        "S3 PutObject",
        "s3tables PutTablePolicy",
    ],
)
def test_a_deny_before_the_transaction_refuses_the_write(
    doors: Doors, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix = uuid.uuid4().hex
    doors.catalog("root", "POST", "namespaces", {"namespace": [f"d{suffix}"]})
    rename = {
        "source": {"namespace": ["ns"], "name": "t"},
        "destination": {"namespace": ["ns"], "name": f"r{suffix}"},
    }
    view = {
        "name": f"v{suffix}",
        "schema": rest.SCHEMA,
        "view-version": {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
            "default-namespace": ["ns"],
        },
        "properties": {},
    }
    policy = json.dumps({"Statement": statement("Deny", "*", "nothing", resource=doors.arn("t"))})
    asks: dict[str, Callable[[Doors, str], int]] = {
        **WRITES,
        "REST create namespace": lambda doors, user: doors.catalog(
            user, "POST", "namespaces", {"namespace": [f"m{suffix}"]}
        )[0],
        "REST drop namespace": lambda doors, user: doors.catalog(
            user, "DELETE", f"namespaces/d{suffix}"
        )[0],
        "REST rename": lambda doors, user: doors.catalog(user, "POST", "tables/rename", rename)[0],
        "REST create view": lambda doors, user: doors.catalog(
            user, "POST", "namespaces/ns/views", view
        )[0],
        "s3tables PutTablePolicy": lambda doors, user: status_of(
            doors.client("s3tables", user).put_table_policy, **named("t"), resourcePolicy=policy
        ),
    }
    index = doors.place.storage.index
    commit, decide, start = index.commit, index.decide, index.start
    waiting = threading.Event()
    bucket_id = doors.place.storage.buckets.get("lake").bucket_id
    denial = settings.plan_policy(bucket_id, None, json.dumps({"Statement": DENY_ALL}))

    async def put_first() -> None:
        if not waiting.is_set():
            waiting.set()
            await commit(denial)

    def start_later(decision: Any, **more: Any) -> Any:
        if not waiting.is_set():
            waiting.set()
            start(lambda reading: batch.Decided(result=None, batch=denial))
        return start(decision, **more)

    async def commit_later(planned: batch.Batch) -> Any:
        await put_first()
        return await commit(planned)

    async def decide_later(decision: Any, **more: Any) -> Any:
        await put_first()
        return await decide(decision, **more)

    doors.tokens.setdefault("everything", _token(doors, "everything"))
    monkeypatch.setattr(index, "commit", commit_later)
    monkeypatch.setattr(index, "decide", decide_later)
    monkeypatch.setattr(index, "start", start_later)
    assert asks[door](doors, "everything") == 403
    assert waiting.is_set()


TAGS_DENIED = {
    "table": {"StringEquals": {"aws:ResourceTag/class": "secret"}},
    "bucket": {"StringEquals": {"s3tables:TableBucketTag/class": "secret"}},
}
SECRET = {"class": "secret"}


@pytest.fixture(params=sorted(TAGS_DENIED))
def to_tag(doors: Doors, request: pytest.FixtureRequest) -> Iterator[str]:
    """The ARN of a table or its bucket, whose tag `class=secret` keeps a user from writing."""
    denial = statement("Deny", ["s3tables:PutTableData", "s3tables:UpdateTable*"], "everything")
    doors.put_policy({**denial, "Condition": TAGS_DENIED[request.param]})
    arn = BUCKET if request.param == "bucket" else doors.arn("t")
    yield arn
    doors.client("s3tables").untag_resource(resourceArn=arn, tagKeys=["class"])


def test_a_tag_before_the_transaction_refuses_the_commit(
    doors: Doors, to_tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = doors.place.storage.index
    tagging = threading.Event()
    answers = []

    def tag() -> None:
        client = doors.client("s3tables")
        answers.append(status_of(client.tag_resource, resourceArn=to_tag, tags=SECRET))

    def tag_first(method: Callable[..., Any]) -> Callable[..., Any]:
        async def later(*arguments: Any, **more: Any) -> Any:
            if not tagging.is_set():
                tagging.set()
                await asyncio.to_thread(tag)
            return await method(*arguments, **more)

        return later

    doors.tokens.setdefault("everything", _token(doors, "everything"))
    monkeypatch.setattr(index, "commit", tag_first(index.commit))
    monkeypatch.setattr(index, "decide", tag_first(index.decide))
    assert WRITES["REST commit"](doors, "everything") == 403
    assert answers == [200]


def test_a_tag_during_a_slow_put_refuses_the_file(doors: Doors, to_tag: str) -> None:
    key = f"ns/t/data/{uuid.uuid4().hex}.parquet"
    url = doors.client("s3", "everything").generate_presigned_url(
        "put_object", Params={"Bucket": "lake", "Key": key}
    )
    target = url.removeprefix(doors.place.url)
    connection = http.client.HTTPConnection(doors.host, doors.port, timeout=waits.WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.putrequest("PUT", target)
        connection.putheader("Content-Length", "2")
        connection.endheaders(b"x")
        time.sleep(0.1)
        tagged = doors.client("s3tables").tag_resource(resourceArn=to_tag, tags=SECRET)
        assert tagged["ResponseMetadata"]["HTTPStatusCode"] == 200
        connection.send(b"y")
        assert connection.getresponse().status == 403


def _token(doors: Doors, user: str) -> str:
    server: Any = _Keys(doors.host, doors.port, *doors.keys(user))
    with rest.Client(server) as client:
        return client.token
