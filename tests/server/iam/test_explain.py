"""Why a principal may do something: asked of a server through its native API."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from server import config
from tests.kit import aws, programs

BUCKET = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"


def document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


ONLY_SALES = {
    "Sid": "sales",
    "Effect": "Allow",
    "Action": "s3tables:*",
    "Resource": "*",
    "Condition": {"StringEquals": {"s3tables:namespace": "sales"}},
}
NO_DROPS = {"Sid": "drops", "Effect": "Deny", "Action": "s3tables:DeleteTable", "Resource": "*"}
SIMULATES = {"Effect": "Allow", "Action": "iam:SimulatePrincipalPolicy", "Resource": "*"}
WRITES = {"Effect": "Allow", "Action": "s3:Put*", "Resource": "*"}
USERS = programs.users(
    {
        "alice": [document(ONLY_SALES, NO_DROPS)],
        "carol": [],
        "dora": [document(SIMULATES)],
        "erin": [document({**SIMULATES, "Resource": "arn:aws:iam::000000000000:role/jobs/*"})],
        "fred": [document({**SIMULATES, "Resource": "arn:aws:iam::000000000000:user/ghost"})],
    }
)
OTHERS = "222222222222"
OF_OTHERS = [
    config.User(
        name=name,
        access_key=f"{name.upper()}KEY",
        secret_key=f"{name}-secret",
        account=OTHERS,
        policies=policies,
    )
    for name, policies in (("zoe", (document(WRITES),)), ("yan", ()))
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    folder = tmp_path_factory.mktemp("explain") / "data"
    with aws.serving(folder, users=[*USERS.values(), *OF_OTHERS]) as running:
        tables = running.client("s3tables")
        for namespace in ("sales", "other"):
            tables.create_namespace(tableBucketARN=BUCKET, namespace=[namespace])
            tables.create_table(
                tableBucketARN=BUCKET, namespace=namespace, name="orders", format="ICEBERG"
            )
        yield running


def explained(
    server: aws.Server, principal: str, action: str, resource: str, *, user: str = "", **more: str
) -> tuple[int, Any]:
    form = {"grant_type": "client_credentials"}
    keys = aws.keys_of(user) if user else aws.ROOT
    form |= {"client_id": keys.access_key, "client_secret": keys.secret_key}
    data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{server.url}/iceberg/v1/oauth/tokens", data, 60) as answer:
        token = json.loads(answer.read())["access_token"]
    query = urllib.parse.urlencode(
        {"principal": principal, "action": action, "resource": resource, **more}
    )
    request = urllib.request.Request(
        f"{server.url}/_api/v1/access/explain?{query}",
        headers={"authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_decision_is_shown_with_the_statements_that_make_it(server: aws.Server) -> None:
    status, answer = explained(server, "alice", "s3tables:GetTableData", "lake/sales/orders")
    assert status == 200
    assert (answer["allow"], answer["reason"], answer["statements"]) == (True, "allow", ["sales"])
    assert answer["principal"] == "arn:aws:iam::000000000000:user/alice"
    assert answer["resource"].startswith(f"{BUCKET}/table/")
    assert answer["context"]["s3tables:namespace"] == ["sales"]
    assert answer["policies"] == [
        {
            "policy": "policies[0]",
            "statements": [
                {"statement": "sales", "effect": "Allow", "applies": True},
                {"statement": "drops", "effect": "Deny", "applies": False},
            ],
        }
    ]
    assert answer["missing"] is None


def test_a_denial_is_shown_with_what_denies_or_what_is_missing(server: aws.Server) -> None:
    _, denied = explained(server, "alice", "s3tables:DeleteTable", "lake/sales/orders")
    assert (denied["allow"], denied["reason"]) == (False, "explicit-deny")
    assert denied["statements"] == ["drops"]
    _, other = explained(server, "alice", "s3tables:GetTableData", "lake/other/orders")
    assert (other["allow"], other["reason"]) == (False, "no-allow")
    assert other["missing"] == {
        "Effect": "Allow",
        "Action": "s3tables:GetTableData",
        "Resource": other["resource"],
    }


def test_the_missing_statement_allows_what_was_denied(server: aws.Server) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="gina")
    keys = aws.Keys.of(iam.create_access_key(UserName="gina"))
    tables = server.client("s3tables", keys)
    call = tables.get_namespace
    members = {"tableBucketARN": BUCKET, "namespace": "sales"}
    assert aws.refusal(call, **members)[0] == 403
    _, answer = explained(server, "gina", "s3tables:GetNamespace", "lake/sales")
    assert not answer["allow"]
    statement = json.dumps(document(answer["missing"]))
    iam.put_user_policy(UserName="gina", PolicyName="missing", PolicyDocument=statement)
    assert call(**members)["namespace"] == ["sales"]
    _, answer = explained(server, "gina", "s3tables:GetNamespace", "lake/sales")
    assert [each["policy"] for each in answer["policies"]] == ["missing"]
    assert answer["allow"]


def test_roles_addresses_and_policies_of_resources_count(server: aws.Server) -> None:
    iam = server.client("iam")
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    iam.create_role(RoleName="etl", AssumeRolePolicyDocument=json.dumps(document(trust)))
    here = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": here}
    iam.put_role_policy(RoleName="etl", PolicyName="p", PolicyDocument=json.dumps(document(allow)))
    question = ("role/etl", "s3:GetObject", "arn:aws:s3:::docs/a")
    assert not explained(server, *question)[1]["allow"]
    assert explained(server, *question, source_ip="10.1.2.3")[1]["allow"]
    server.client("s3").create_bucket(Bucket="docs")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::docs/*"}
    server.client("s3").put_bucket_policy(Bucket="docs", Policy=json.dumps(document(deny)))
    _, answer = explained(server, *question, source_ip="10.1.2.3")
    assert answer["reason"] == "explicit-deny"
    assert answer["policies"][-1]["policy"] == "policy of the resource"


def test_an_object_of_an_anonymous_writer_is_explained_by_its_owner(server: aws.Server) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="drop")
    drop = "arn:aws:s3:::drop/*"
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": drop}
    s3.put_bucket_policy(Bucket="drop", Policy=json.dumps(document(allow)))
    url = f"{server.url}/drop/file"
    urllib.request.urlopen(urllib.request.Request(url, b"x", method="PUT"), timeout=60).close()
    server.client("iam").create_user(UserName="collector")
    reads = json.dumps(document({"Effect": "Allow", "Action": "s3:Get*", "Resource": "*"}))
    server.client("iam").put_user_policy(UserName="collector", PolicyName="p", PolicyDocument=reads)
    question = ("collector", "s3:GetObject", "arn:aws:s3:::drop/file")
    _, answer = explained(server, *question)
    assert (answer["allow"], answer["reason"], answer["missing"]) == (False, "no-allow", None)
    assert "BucketOwnerEnforced" in answer["note"]
    _, answer = explained(server, "root", *question[1:])
    assert (answer["allow"], answer["note"]) == (True, None)
    rules = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    s3.put_bucket_ownership_controls(Bucket="drop", OwnershipControls=rules)
    _, answer = explained(server, *question)
    assert (answer["allow"], answer["note"]) == (True, None)


def test_a_statement_is_missing_where_the_owner_of_an_object_or_its_list_allows_it(
    server: aws.Server,
) -> None:
    server.client("s3").create_bucket(Bucket="shared")
    both = {"AWS": [f"arn:aws:iam::{OTHERS}:user/{name}" for name in ("zoe", "yan")]}
    puts = {"Effect": "Allow", "Principal": both, "Action": ["s3:PutObject", "s3:PutObjectAcl"]}
    policy = json.dumps(document({**puts, "Resource": "arn:aws:s3:::shared/*"}))
    server.client("s3").put_bucket_policy(Bucket="shared", Policy=policy)
    zoe = server.client("s3", aws.keys_of("zoe"))
    zoe.put_object(Bucket="shared", Key="own", Body=b"x")
    zoe.put_object(Bucket="shared", Key="granted", Body=b"x", ACL="authenticated-read")
    for principal, key, is_missing in (
        ("yan", "own", True),  # of the account that owns the object
        ("carol", "own", False),
        ("carol", "granted", True),
    ):
        question = (principal, "s3:GetObject", f"arn:aws:s3:::shared/{key}")
        _, answer = explained(server, *question)
        assert (answer["allow"], answer["reason"]) == (False, "no-allow")
        assert (answer["missing"] is not None, answer["note"] is None) == (is_missing, is_missing)
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject"}
    policy = json.dumps(document({**deny, "Resource": "arn:aws:s3:::shared/*"}))
    server.client("s3").put_bucket_policy(Bucket="shared", Policy=policy)
    _, answer = explained(server, "carol", "s3:GetObject", "arn:aws:s3:::shared/own")
    assert (answer["reason"], answer["missing"], answer["note"]) == ("explicit-deny", None, None)


def test_only_who_may_simulate_a_principals_policies_is_answered(server: aws.Server) -> None:
    question = ("alice", "s3tables:GetTable", "lake/sales/orders")
    assert explained(server, *question, user="carol")[0] == 403
    assert explained(server, "unknown", *question[1:], user="carol")[0] == 403
    assert explained(server, "unknown", *question[1:])[0] == 400
    assert explained(server, "alice", "s3tables:GetTable", "lake/sales/absent")[0] == 404
    assert explained(server, "alice", "s3:GetObject", "docs/a")[0] == 400
    assert explained(server, "root", *question[1:])[1]["reason"] == "root"


def test_the_right_to_simulate_is_about_the_arn_of_the_user_or_role(server: aws.Server) -> None:
    iam = server.client("iam")
    trust = json.dumps(document({"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}))
    for name, path in (("inside", "/jobs/"), ("outside", "/")):
        iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=trust)

    def statuses(user: str) -> dict[str, int]:
        question = ("s3:GetObject", "arn:aws:s3:::docs/a")
        named = ("role/inside", "role/outside", "role/none", "alice", "ghost")
        return {each: explained(server, each, *question, user=user)[0] for each in named}

    refused = {"role/outside": 403, "role/none": 403, "alice": 403}
    assert statuses("erin") == {**refused, "role/inside": 200, "ghost": 403}
    assert statuses("fred") == {**refused, "role/inside": 403, "ghost": 400}
    assert explained(server, "role/none", "s3tables:GetTable", "lake/sales/orders")[0] == 400


def test_attached_policies_are_shown_by_their_arns_behind_those_of_the_user_or_role(
    server: aws.Server,
) -> None:
    iam = server.client("iam")
    reads = json.dumps(document({"Effect": "Allow", "Action": "s3tables:Get*", "Resource": "*"}))
    arn = iam.create_policy(PolicyName="reading", PolicyDocument=reads)["Policy"]["Arn"]
    trust = json.dumps(document({"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}))
    nothing = json.dumps(document({"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}))
    iam.create_user(UserName="hank")
    iam.put_user_policy(UserName="hank", PolicyName="own", PolicyDocument=nothing)
    iam.attach_user_policy(UserName="hank", PolicyArn=arn)
    iam.create_role(RoleName="night", AssumeRolePolicyDocument=trust)
    iam.put_role_policy(RoleName="night", PolicyName="own", PolicyDocument=nothing)
    iam.attach_role_policy(RoleName="night", PolicyArn=arn)
    try:
        for name in ("hank", "role/night"):
            _, answer = explained(server, name, "s3tables:GetTable", "lake/sales/orders")
            assert answer["allow"]
            assert [each["policy"] for each in answer["policies"]] == ["own", arn]
    finally:
        iam.detach_role_policy(RoleName="night", PolicyArn=arn)
        iam.delete_role_policy(RoleName="night", PolicyName="own")
        iam.delete_role(RoleName="night")  # another test makes one of this name


def test_a_table_that_the_caller_may_not_know_of_looks_like_an_absent_one(
    server: aws.Server,
) -> None:
    answers = [
        explained(server, "dora", "s3tables:GetTableData", f"lake/sales/{table}", user="dora")
        for table in ("orders", "absent")
    ]
    assert [status for status, _ in answers] == [403, 403]
    shown = [answer["error"]["message"] for _, answer in answers]
    assert shown[0].replace("orders", "absent") == shown[1]


@pytest.mark.parametrize("action", ["S3TABLES:gettabledata", "s3tables:GETTABLEDATA"])
def test_an_action_may_be_spelled_in_any_case(server: aws.Server, action: str) -> None:
    status, answer = explained(server, "alice", action, "lake/sales/orders")
    assert status == 200
    assert answer["action"] == "s3tables:GetTableData"
    assert (answer["allow"], answer["statements"]) == (True, ["sales"])


def test_actions_of_the_lake_take_the_names_of_tables(server: aws.Server) -> None:
    status, answer = explained(server, "alice", "lake:undrop", "lake/sales/orders")
    assert status == 200
    assert answer["resource"].startswith(f"{BUCKET}/table/")
    assert answer["missing"]["Action"] == "lake:Undrop"


def test_the_users_and_roles_that_may_do_something_are_named(server: aws.Server) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="Reader")
    reads = json.dumps(document({"Effect": "Allow", "Action": "s3tables:Get*", "Resource": "*"}))
    iam.put_user_policy(UserName="Reader", PolicyName="p", PolicyDocument=reads)
    root = {"AWS": "arn:aws:iam::000000000000:root"}
    trust = {"Effect": "Allow", "Principal": root, "Action": "sts:AssumeRole"}
    iam.create_role(RoleName="Night", AssumeRolePolicyDocument=json.dumps(document(trust)))
    iam.put_role_policy(RoleName="Night", PolicyName="p", PolicyDocument=reads)
    query = {"action": "s3tables:gettable", "resource": "lake/sales/orders"}
    path = f"/_api/v1/access/allowed?{urllib.parse.urlencode(query)}"
    status, answer = aws.signed(server, aws.ROOT, "GET", path, service="execute-api")
    assert (status, answer["action"]) == (200, "s3tables:GetTable")
    assert {"root", "alice", "reader", "role/night"} <= set(answer["allowed"])
    assert {"carol", "dora"}.isdisjoint(answer["allowed"])
    refused = aws.signed(server, aws.keys_of("carol"), "GET", path, service="execute-api")
    assert refused[0] == 403
    missing = aws.signed(
        server,
        aws.ROOT,
        "GET",
        "/_api/v1/access/allowed?action=x",
        service="execute-api",
    )
    assert missing[0] == 400
