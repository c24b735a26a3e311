"""boto3's iam client: users, keys, roles and policies, and what they may do at once."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
import urllib.parse
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from botocore import auth, awsrequest, credentials

from server import config
from server.access import principals
from storage import batch
from tests.kit import aws, programs


def allowing(*actions: str, resource: str = "*", effect: str = "Allow") -> dict[str, Any]:
    statement = {"Effect": effect, "Action": list(actions), "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


def trusting(principal: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"AWS": principal}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


USERS = [*programs.users({"alice": [allowing("s3:*")], "carol": []}).values()]
USERS.append(
    config.User(
        name="far",
        access_key="FARKEY",
        secret_key="far-secret",
        account="111111111111",
        policies=(allowing("*"),),
    )
)
USERS.append(
    config.User(name="rita", access_key="RITAKEY", secret_key="rita-secret", policies=("ReadOnly",))
)
KIM = aws.Keys(access_key="AKIAKIMKIMKIMKIM", secret_key="kim-secret")
USERS.append(
    config.User(name="kim", access_key=KIM.access_key, secret_key=KIM.secret_key, policies=())
)
DOCUMENT = json.dumps(allowing("s3:GetObject"))
FORM = "application/x-www-form-urlencoded"
NUMBERS = itertools.count(1)
OWN = "arn:aws:iam::aws:policy"
HERE = "arn:aws:iam::000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    folder = tmp_path_factory.mktemp("iam") / "data"
    with aws.serving(folder, users=USERS) as running:
        s3 = running.client("s3")
        s3.create_bucket(Bucket="docs")
        s3.put_object(Bucket="docs", Key="a", Body=b"1")
        yield running


@pytest.fixture
def iam(server: aws.Server) -> Any:
    return server.client("iam")


@pytest.fixture
def name(iam: Any) -> str:
    """The name of a new user."""
    chosen = f"user{next(NUMBERS)}"
    iam.create_user(UserName=chosen)
    return chosen


def may_read(server: aws.Server, keys: aws.Keys) -> bool:
    s3 = server.client("s3", keys)
    try:
        return bool(s3.get_object(Bucket="docs", Key="a")["Body"].read() == b"1")
    except s3.exceptions.ClientError as error:
        if error.response["Error"]["Code"] == "AccessDenied":
            return False
        raise


def test_a_user_is_created_shown_and_deleted(iam: Any) -> None:
    created = iam.create_user(UserName="Zoe", Path="/eng/", Tags=[{"Key": "a", "Value": "b"}])[
        "User"
    ]
    assert created["Arn"] == f"{HERE}:user/eng/Zoe"
    assert created["UserId"].startswith("AIDA")
    assert len(created["UserId"]) == 21
    shown = iam.get_user(UserName="zoe")["User"]
    assert shown == created
    assert shown["Tags"] == [{"Key": "a", "Value": "b"}]
    assert aws.refusal(iam.create_user, UserName="ZOE") == (409, "EntityAlreadyExists")
    assert [user["UserName"] for user in iam.list_users(PathPrefix="/eng/")["Users"]] == ["Zoe"]
    iam.delete_user(UserName="Zoe")
    assert aws.refusal(iam.get_user, UserName="Zoe") == (404, "NoSuchEntity")
    assert aws.refusal(iam.delete_user, UserName="Zoe") == (404, "NoSuchEntity")


def test_a_renamed_user_keeps_its_id_keys_policies_and_sessions(
    server: aws.Server, iam: Any, name: str
) -> None:
    policy = iam.create_policy(PolicyName=f"of-{name}", PolicyDocument=DOCUMENT)["Policy"]["Arn"]
    iam.attach_user_policy(UserName=name, PolicyArn=policy)
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    session = aws.Keys.of(server.client("sts", keys).get_session_token())
    before = iam.get_user(UserName=name)["User"]
    new = f"{name}-New"
    iam.update_user(UserName=name, NewUserName=new, NewPath="/eng/")
    after = iam.get_user(UserName=new)["User"]
    arn = f"{HERE}:user/eng/{new}"
    assert after == {**before, "UserName": new, "Path": "/eng/", "Arn": arn}
    assert aws.refusal(iam.get_user, UserName=name) == (404, "NoSuchEntity")
    for each in (keys, session):
        assert may_read(server, each)
        identity = server.client("sts", each).get_caller_identity()
        assert (identity["Arn"], identity["UserId"]) == (arn, before["UserId"])
    holders = iam.list_entities_for_policy(PolicyArn=policy)["PolicyUsers"]
    assert holders == [{"UserName": new, "UserId": before["UserId"]}]
    iam.detach_user_policy(UserName=new, PolicyArn=policy)
    iam.delete_policy(PolicyArn=policy)
    assert not may_read(server, keys)
    iam.create_user(UserName=name)  # the old name is free
    iam.update_user(UserName=new.lower(), NewUserName=new.upper(), NewPath="/")
    assert server.client("sts", keys).get_caller_identity()["Arn"] == f"{HERE}:user/{new.upper()}"
    iam.delete_access_key(UserName=new, AccessKeyId=keys.access_key)
    iam.delete_user(UserName=new)


def test_policies_that_name_a_renamed_user_as_principal_follow(
    server: aws.Server, iam: Any, name: str
) -> None:
    old, new = f"{HERE}:user/{name}", f"{HERE}:user/{name}x"
    other = f"{HERE}:user/carol"
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    s3, s3tables = server.client("s3"), server.client("s3tables")
    bucket = f"of-{name}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")

    def policy(action: str, resource: str, principal: Any) -> str:
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": principal},
            "Action": action,
            "Resource": resource,
        }
        kept = {**statement, "Principal": {"AWS": other}, "Condition": {
            "ArnEquals": {"aws:PrincipalArn": old}
        }}  # fmt: skip
        return json.dumps({"Version": "2012-10-17", "Statement": [statement, kept]})

    # JSON may escape a slash.
    text = policy("s3:GetObject", f"arn:aws:s3:::{bucket}/*", old).replace(f"/{name}", f"\\/{name}")
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    table_bucket = s3tables.create_table_bucket(name=f"lake-{name}")["arn"]
    s3tables.create_namespace(tableBucketARN=table_bucket, namespace=["ns"])
    table = {"tableBucketARN": table_bucket, "namespace": "ns", "name": "t"}
    table_arn = s3tables.create_table(format="ICEBERG", **table)["tableARN"]
    s3tables.put_table_bucket_policy(
        tableBucketARN=table_bucket,
        resourcePolicy=policy("s3tables:GetTableBucket", table_bucket, [other, old]),
    )
    s3tables.put_table_policy(resourcePolicy=policy("s3tables:GetTable", table_arn, old), **table)
    role = iam.create_role(RoleName=f"r-{name}", AssumeRolePolicyDocument=trusting(old))["Role"]

    def use() -> None:
        assert server.client("s3", keys).get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"
        mine = server.client("s3tables", keys)
        assert mine.get_table_bucket(tableBucketARN=table_bucket)["arn"] == table_bucket
        assert mine.get_table(**table)["tableARN"] == table_arn
        assume = server.client("sts", keys).assume_role
        assert assume(RoleArn=role["Arn"], RoleSessionName="se")["Credentials"]

    def named() -> list[Any]:
        documents = [
            json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]),
            json.loads(
                s3tables.get_table_bucket_policy(tableBucketARN=table_bucket)["resourcePolicy"]
            ),
            json.loads(s3tables.get_table_policy(**table)["resourcePolicy"]),
            iam.get_role(RoleName=role["RoleName"])["Role"]["AssumeRolePolicyDocument"],
        ]
        assert [document["Statement"][1:] for document in documents[:3]] == [
            [{**document["Statement"][0], "Principal": {"AWS": other},
              "Condition": {"ArnEquals": {"aws:PrincipalArn": old}}}]
            for document in documents[:3]
        ]  # fmt: skip
        return [document["Statement"][0]["Principal"]["AWS"] for document in documents]

    use()
    assert named() == [old, [other, old], old, old]
    iam.update_user(UserName=name, NewUserName=f"{name}x")
    use()
    assert named() == [new, [other, new], new, new]
    # A new user of the old name has nothing of it.
    iam.create_user(UserName=name)
    heir = aws.Keys.of(iam.create_access_key(UserName=name))
    call = server.client("s3", heir).get_object
    assert aws.refusal(call, Bucket=bucket, Key="a") == (403, "AccessDenied")


def test_the_policy_of_another_never_keeps_a_user_from_being_renamed(
    server: aws.Server, iam: Any, name: str
) -> None:
    s3, bucket = server.client("s3"), f"long-{name}"
    s3.create_bucket(Bucket=bucket)
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": f"{HERE}:user/{name}"},
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/",
    }
    text = json.dumps({"Version": "2012-10-17", "Statement": statement}, separators=(",", ":"))
    text = text.replace(f"{bucket}/", f"{bucket}/" + "k" * (20_480 - len(text)))
    assert len(text) == 20_480  # as long as a policy may be
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    call = iam.update_user
    call(UserName=name, NewUserName=f"{name}0")
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == text.replace(name, f"{name}0", 1)
    half = {"StringNotEquals": {"aws:UserAgent": "\ud800"}}
    # JSON can say half of a pair of surrogates, which no UTF-8 can.
    text = json.dumps({"Version": "2012-10-17", "Statement": {**statement, "Condition": half}})
    s3.put_bucket_policy(Bucket=bucket, Policy=text.replace(f"user/{name}", f"user/{name}0"))
    call(UserName=f"{name}0", NewUserName=name)
    policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    assert policy["Statement"]["Principal"] == {"AWS": f"{HERE}:user/{name}"}


def test_a_name_is_changed_only_to_a_free_one_by_callers_with_rights_on_both(
    server: aws.Server, iam: Any, name: str
) -> None:
    call = iam.update_user
    iam.create_user(UserName=f"{name}-taken")
    for taken in (f"{name}-TAKEN", "alice", "Root"):
        assert aws.refusal(call, UserName=name, NewUserName=taken) == (409, "EntityAlreadyExists")
    assert aws.refusal(call, UserName="none", NewUserName="b") == (404, "NoSuchEntity")
    assert aws.refusal(call, UserName="alice", NewUserName="b") == (400, "UnmodifiableEntity")
    assert aws.refusal(call, UserName=name, NewUserName="a/b") == (400, "ValidationError")
    assert aws.refusal(call, UserName=name, NewPath="eng") == (400, "ValidationError")
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    mine = server.client("iam", keys).update_user
    for resources, allowed in (
        ([f"user/{name}"], False),
        ([f"user/{name}y"], False),
        ([f"user/{name}", f"user/{name}y"], True),
    ):
        document = allowing("iam:UpdateUser")
        document["Statement"][0]["Resource"] = [f"{HERE}:{each}" for each in resources]
        iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(document))
        if allowed:
            mine(UserName=name, NewUserName=f"{name}y")
        else:
            refused = aws.refusal(mine, UserName=name, NewUserName=f"{name}y")
            assert refused == (403, "AccessDenied")
    assert iam.get_user(UserName=f"{name}y")["User"]["UserName"] == f"{name}y"


@pytest.mark.parametrize("name", ["a b", "", "x" * 65, "naïve", "a/b", "a:b"])
def test_a_name_that_iam_refuses_is_refused(iam: Any, name: str) -> None:
    assert aws.refusal(iam.create_user, UserName=name) == (400, "ValidationError")
    assert aws.refusal(iam.create_role, RoleName=name, AssumeRolePolicyDocument=trusting("*")) == (
        400,
        "ValidationError",
    )


def test_users_are_listed_in_pages_beside_those_of_the_configuration(iam: Any) -> None:
    for number in range(5):
        iam.create_user(UserName=f"paged{number}", Path="/paged/")
    pages = [*iam.get_paginator("list_users").paginate(PaginationConfig={"PageSize": 2})]
    names = [user["UserName"] for page in pages for user in page["Users"]]
    assert names == sorted(names, key=str.lower)
    assert {"alice", "carol", "rita", *(f"paged{number}" for number in range(5))} <= set(names)
    assert all(len(page["Users"]) == 2 for page in pages[:-1])
    assert aws.refusal(iam.list_users, Marker="*") == (400, "ValidationError")


def test_a_key_pair_opens_every_door_with_the_users_rights_as_they_are(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    assert keys.access_key.startswith("AKIA")
    assert not may_read(server, keys)
    iam.put_user_policy(UserName=name, PolicyName="read", PolicyDocument=DOCUMENT)
    assert may_read(server, keys)
    denial = json.dumps(allowing("s3:*", effect="Deny"))
    iam.put_user_policy(UserName=name, PolicyName="no", PolicyDocument=denial)
    assert not may_read(server, keys)
    iam.delete_user_policy(UserName=name, PolicyName="no")
    assert may_read(server, keys)
    iam.delete_user_policy(UserName=name, PolicyName="read")
    assert not may_read(server, keys)
    assert server.client("sts", keys).get_caller_identity()["Arn"] == f"{HERE}:user/{name}"


def test_a_key_ends_at_once_with_all_that_was_made_with_it(
    server: aws.Server, iam: Any, name: str
) -> None:
    iam.put_user_policy(UserName=name, PolicyName="read", PolicyDocument=DOCUMENT)
    first = aws.Keys.of(iam.create_access_key(UserName=name))
    second = aws.Keys.of(iam.create_access_key(UserName=name))
    sessions = [
        aws.Keys.of(server.client("sts", keys).get_session_token()) for keys in (first, second)
    ]
    assert all(may_read(server, keys) for keys in (first, second, *sessions))
    iam.update_access_key(UserName=name, AccessKeyId=first.access_key, Status="Inactive")
    for keys in (first, sessions[0]):
        call = server.client("sts", keys).get_caller_identity
        assert aws.refusal(call) == (403, "InvalidClientTokenId")
    assert all(may_read(server, keys) for keys in (second, sessions[1]))
    iam.update_access_key(UserName=name, AccessKeyId=first.access_key, Status="Active")
    assert all(may_read(server, keys) for keys in (first, sessions[0]))
    iam.delete_access_key(UserName=name, AccessKeyId=second.access_key)
    for keys in (second, sessions[1]):
        assert aws.refusal(server.client("sts", keys).get_caller_identity)[0] == 403


def begin(
    server: aws.Server, keys: aws.Keys, service: str, method: str, path: str, body: bytes
) -> socket.socket:
    """Send the head of a signed request, and return its connection once the body is waited for."""
    signed_request = awsrequest.AWSRequest(
        method=method, url=server.url + path, data=body, headers={"content-type": FORM}
    )
    signer = auth.S3SigV4Auth if service == "s3" else auth.SigV4Auth
    pair = credentials.Credentials(keys.access_key, keys.secret_key)
    signer(pair, service, aws.REGION).add_auth(signed_request)
    fields = {
        **signed_request.headers,
        "host": server.url.removeprefix("http://"),
        "content-length": str(len(body)),
        "expect": "100-continue",
        "connection": "close",
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    connection = socket.create_connection(("127.0.0.1", server.serving.port), timeout=60)
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    interim = b""
    while not interim.endswith(b"\r\n\r\n"):
        received = connection.recv(1)
        assert received, interim
        interim += received
    assert interim.startswith(b"HTTP/1.1 100 "), interim
    return connection


@pytest.mark.parametrize("how", ["policy", "key"])
def test_a_request_whose_body_comes_late_has_the_rights_of_that_moment(
    server: aws.Server, iam: Any, name: str, how: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    iam.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=json.dumps(allowing("*")))
    form = {
        "Action": "AttachUserPolicy",
        "Version": "2010-05-08",
        "UserName": name,
        "PolicyArn": f"{OWN}/AdministratorAccess",
    }
    policy = {
        "Effect": "Allow",
        "Principal": {"AWS": "111111111111"},
        "Action": "s3:*",
        "Resource": "arn:aws:s3:::docs/*",
    }
    document = {"Version": "2012-10-17", "Statement": policy}
    begun = [
        (connection, body)
        for service, method, path, body in (
            ("iam", "POST", "/", urllib.parse.urlencode(form).encode()),
            ("s3tables", "PUT", "/buckets", b'{"name": "late-bucket"}'),
            ("s3", "PUT", "/docs?policy", json.dumps(document).encode()),
            ("s3", "PUT", f"/late-{how}", b"<CreateBucketConfiguration/>"),
            ("s3", "PUT", "/docs/a?tagging", b"<Tagging><TagSet/></Tagging>"),
        )
        for connection in (begin(server, keys, service, method, path, body),)
    ]
    if how == "policy":
        iam.delete_user_policy(UserName=name, PolicyName="all")
    else:
        iam.delete_access_key(UserName=name, AccessKeyId=keys.access_key)
    for connection, body in begun:
        with connection, connection.makefile("rb") as answer:
            connection.sendall(body)
            status = int(answer.readline().split()[1])
            assert 400 <= status < 404, answer.read()
    assert iam.list_attached_user_policies(UserName=name)["AttachedPolicies"] == []


def last_use(iam: Any, access_key: str) -> tuple[str, dict[str, Any]]:
    answer = iam.get_access_key_last_used(AccessKeyId=access_key)
    return answer["UserName"], answer["AccessKeyLastUsed"]


def test_the_last_use_of_a_key_is_shown(server: aws.Server, iam: Any, name: str) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    never = {"ServiceName": "N/A", "Region": "N/A"}
    assert last_use(iam, keys.access_key) == (name, never)
    session = aws.Keys.of(server.client("sts", keys).get_session_token())
    _, use = last_use(iam, keys.access_key)
    date = use.pop("LastUsedDate")
    assert abs(date.timestamp() - server.clock() / 1000) < 30
    assert use == {"ServiceName": "sts", "Region": aws.REGION}
    # Keys that come from it are not it, and a request may be refused.
    assert not may_read(server, session)
    assert last_use(iam, keys.access_key)[1]["ServiceName"] == "sts"
    assert not may_read(server, keys)
    assert last_use(iam, keys.access_key)[1]["ServiceName"] == "s3"
    wrong = aws.Keys(access_key=keys.access_key, secret_key="wrong")
    assert aws.refusal(server.client("s3tables", wrong).list_table_buckets)[0] == 403
    assert last_use(iam, keys.access_key)[1]["ServiceName"] == "s3"
    form = urllib.parse.urlencode(
        {
            "grant_type": "client_credentials",
            "client_id": keys.access_key,
            "client_secret": keys.secret_key,
        }
    )
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    target = "/iceberg/v1/oauth/tokens"
    connection.request("POST", target, form, {"content-type": FORM})
    assert connection.getresponse().status == 200
    connection.close()
    assert last_use(iam, keys.access_key)[1]["ServiceName"] == "iceberg"
    assert not may_read(server, KIM)  # of the configuration
    name_of_kim, use = last_use(iam, KIM.access_key)
    assert (name_of_kim, use["ServiceName"]) == ("kim", "s3")
    call = iam.get_access_key_last_used
    assert aws.refusal(call, AccessKeyId="AKIA00000000000000NO") == (404, "NoSuchEntity")
    mine = server.client("iam", keys).get_access_key_last_used
    assert aws.refusal(mine, AccessKeyId=keys.access_key) == (403, "AccessDenied")
    document = json.dumps(allowing("iam:GetAccessKeyLastUsed", resource=f"{HERE}:user/{name}"))
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=document)
    assert mine(AccessKeyId=keys.access_key)["UserName"] == name
    # Who may ask about one user does not learn which keys exist.
    for other in (KIM.access_key, "AKIA00000000000000NO"):
        assert aws.refusal(mine, AccessKeyId=other) == (403, "AccessDenied")


def test_the_last_use_of_a_key_outlives_the_server_and_ends_with_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with aws.serving(folder, users=USERS) as server:
        iam = server.client("iam")
        iam.create_user(UserName="dora")
        pairs = [aws.Keys.of(iam.create_access_key(UserName="dora")) for _ in range(2)]
        for keys in (*pairs, KIM):
            aws.refusal(server.client("s3", keys).list_buckets)
        _, before = last_use(iam, pairs[0].access_key)
        iam.update_access_key(UserName="dora", AccessKeyId=pairs[0].access_key, Status="Inactive")
        iam.delete_access_key(UserName="dora", AccessKeyId=pairs[1].access_key)
    with aws.serving(folder, users=USERS) as server:
        iam = server.client("iam")
        name, use = last_use(iam, pairs[0].access_key)
        assert name == "dora"
        used_at, noted_at = use.pop("LastUsedDate"), before.pop("LastUsedDate")
        assert abs((used_at - noted_at).total_seconds()) < 1
        assert use == before == {"ServiceName": "s3", "Region": aws.REGION}
        assert last_use(iam, KIM.access_key)[1]["ServiceName"] == "s3"
        with server.program.storage.index.view() as view:
            stored = [key for key, _ in view.scan(batch.Store.IDENTITIES, b"l", b"m")]
        assert sorted(stored) == sorted(
            b"l" + key.encode() for key in (pairs[0].access_key, KIM.access_key, "ROOTKEY")
        )


def test_a_user_has_two_keys_whose_secrets_are_shown_once(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = [iam.create_access_key(UserName=name)["AccessKey"] for _ in range(2)]
    assert aws.refusal(iam.create_access_key, UserName=name) == (409, "LimitExceeded")
    listed = iam.list_access_keys(UserName=name)["AccessKeyMetadata"]
    assert {key["AccessKeyId"] for key in listed} == {key["AccessKeyId"] for key in keys}
    assert all("SecretAccessKey" not in key for key in listed)
    index = b"".join(
        path.read_bytes()
        for path in Path(server.program.storage.path).rglob("*")
        if path.is_file() and path.name in ("data.mdb",)
    )
    assert keys[0]["AccessKeyId"].encode() in index
    assert all(key["SecretAccessKey"].encode() not in index for key in keys)


def test_concurrent_requests_for_keys_never_exceed_the_quota(iam: Any, name: str) -> None:
    def create(_: int) -> bool:
        try:
            iam.create_access_key(UserName=name)
        except iam.exceptions.LimitExceededException:
            return False
        return True

    with futures.ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(create, range(6))) == 2


def test_a_deleted_users_credentials_do_not_work_for_a_new_user_of_the_name(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    session = aws.Keys.of(server.client("sts", keys).get_session_token())
    assert aws.refusal(iam.delete_user, UserName=name) == (409, "DeleteConflict")
    iam.delete_access_key(UserName=name, AccessKeyId=keys.access_key)
    iam.delete_user(UserName=name)
    iam.create_user(UserName=name)
    for old in (keys, session):
        assert aws.refusal(server.client("sts", old).get_caller_identity)[0] == 403


def test_a_user_with_policies_is_not_deleted(iam: Any, name: str) -> None:
    iam.put_user_policy(UserName=name, PolicyName="read", PolicyDocument=DOCUMENT)
    assert aws.refusal(iam.delete_user, UserName=name) == (409, "DeleteConflict")
    iam.delete_user_policy(UserName=name, PolicyName="read")
    iam.attach_user_policy(UserName=name, PolicyArn=f"{OWN}/ReadOnly")
    assert aws.refusal(iam.delete_user, UserName=name) == (409, "DeleteConflict")
    iam.detach_user_policy(UserName=name, PolicyArn=f"{OWN}/ReadOnly")
    iam.delete_user(UserName=name)


def test_inline_policies_are_shown_as_they_were_put(iam: Any, name: str) -> None:
    for policy in ("b", "A"):
        iam.put_user_policy(UserName=name, PolicyName=policy, PolicyDocument=DOCUMENT)
    assert iam.list_user_policies(UserName=name)["PolicyNames"] == ["A", "b"]
    shown = iam.get_user_policy(UserName=name, PolicyName="A")
    assert shown["PolicyDocument"] == json.loads(DOCUMENT)
    assert aws.refusal(iam.get_user_policy, UserName=name, PolicyName="c") == (404, "NoSuchEntity")
    assert aws.refusal(iam.delete_user_policy, UserName=name, PolicyName="c") == (
        404,
        "NoSuchEntity",
    )


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        json.dumps(allowing("s3:GetObjekt")),
        json.dumps({**allowing("s3:*"), "Version": "2020-01-01"}),
        trusting("*"),
    ],
)
def test_a_malformed_policy_is_refused_and_not_stored(iam: Any, name: str, document: str) -> None:
    malformed = (400, "MalformedPolicyDocument")
    call = iam.put_user_policy
    assert aws.refusal(call, UserName=name, PolicyName="p", PolicyDocument=document) == malformed
    assert iam.list_user_policies(UserName=name)["PolicyNames"] == []
    call = iam.create_policy
    assert aws.refusal(call, PolicyName="malformed", PolicyDocument=document) == malformed
    assert aws.refusal(iam.get_policy, PolicyArn=f"{HERE}:policy/malformed")[1] == "NoSuchEntity"


def test_the_quota_of_inline_policies_does_not_count_white_space(iam: Any, name: str) -> None:
    padding = " " * 3_000
    iam.put_user_policy(UserName=name, PolicyName="a", PolicyDocument=DOCUMENT + padding)
    long = json.dumps(allowing(*["s3:GetObject"] * 150))
    call = iam.put_user_policy
    assert aws.refusal(call, UserName=name, PolicyName="b", PolicyDocument=long) == (
        409,
        "LimitExceeded",
    )


def test_a_managed_policy_is_in_force_at_once_in_its_default_version(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    policy = iam.create_policy(PolicyName=f"p-{name}", PolicyDocument=DOCUMENT)["Policy"]
    arn = policy["Arn"]
    assert policy["DefaultVersionId"] == "v1"
    iam.attach_user_policy(UserName=name, PolicyArn=arn)
    iam.attach_user_policy(UserName=name, PolicyArn=arn)
    assert may_read(server, keys)
    assert iam.get_policy(PolicyArn=arn)["Policy"]["AttachmentCount"] == 1
    attached = iam.list_attached_user_policies(UserName=name)["AttachedPolicies"]
    assert attached == [{"PolicyName": f"p-{name}", "PolicyArn": arn}]
    entities = iam.list_entities_for_policy(PolicyArn=arn)
    assert [user["UserName"] for user in entities["PolicyUsers"]] == [name]
    none = {"PolicyUsers": [], "PolicyRoles": [], "PolicyGroups": [], "IsTruncated": False}
    iam.update_user(UserName=name, NewPath="/eng/web/")
    for filters, holds in (
        ({"PathPrefix": "/eng/"}, True),
        ({"PathPrefix": "/ops/"}, False),
        ({"PolicyUsageFilter": "PermissionsPolicy"}, True),
        ({"PolicyUsageFilter": "PermissionsBoundary"}, False),
        ({"EntityFilter": "Role"}, False),
    ):
        answer = iam.list_entities_for_policy(PolicyArn=arn, **filters)
        del answer["ResponseMetadata"]
        assert answer == ({**none, "PolicyUsers": entities["PolicyUsers"]} if holds else none), (
            filters
        )
    for usage, lists in (("PermissionsPolicy", True), ("PermissionsBoundary", False)):
        listed = iam.list_policies(Scope="Local", PolicyUsageFilter=usage)["Policies"]
        assert (arn in [each["Arn"] for each in listed]) is lists
    nothing = json.dumps(allowing("s3:PutObject"))
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=nothing)
    assert may_read(server, keys)
    iam.set_default_policy_version(PolicyArn=arn, VersionId="v2")
    assert not may_read(server, keys)
    iam.set_default_policy_version(PolicyArn=arn, VersionId="v1")
    assert may_read(server, keys)
    versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
    assert [each["VersionId"] for each in versions] == ["v2", "v1"]
    shown = iam.get_policy_version(PolicyArn=arn, VersionId="v2")["PolicyVersion"]
    assert shown["Document"] == json.loads(nothing)
    assert aws.refusal(iam.delete_policy, PolicyArn=arn) == (409, "DeleteConflict")
    iam.detach_user_policy(UserName=name, PolicyArn=arn)
    assert not may_read(server, keys)
    assert aws.refusal(iam.delete_policy, PolicyArn=arn) == (409, "DeleteConflict")
    call = iam.delete_policy_version
    assert aws.refusal(call, PolicyArn=arn, VersionId="v1") == (409, "DeleteConflict")
    call(PolicyArn=arn, VersionId="v2")
    iam.delete_policy(PolicyArn=arn)
    assert aws.refusal(iam.get_policy, PolicyArn=arn) == (404, "NoSuchEntity")


def test_five_versions_and_ten_attached_policies_are_the_most(iam: Any, name: str) -> None:
    arn = iam.create_policy(PolicyName=f"v-{name}", PolicyDocument=DOCUMENT)["Policy"]["Arn"]
    for _ in range(4):
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=DOCUMENT)
    call = iam.create_policy_version
    assert aws.refusal(call, PolicyArn=arn, PolicyDocument=DOCUMENT) == (409, "LimitExceeded")
    for number in range(10):
        each = iam.create_policy(PolicyName=f"m{number}-{name}", PolicyDocument=DOCUMENT)
        iam.attach_user_policy(UserName=name, PolicyArn=each["Policy"]["Arn"])
    call = iam.attach_user_policy
    assert aws.refusal(call, UserName=name, PolicyArn=arn) == (409, "LimitExceeded")


@pytest.mark.parametrize(
    "arn",
    [
        f"{OWN}/NoSuchPolicyThere",
        f"{OWN}/readonly",
        f"{HERE}:policy/no-such-policy",
        f"{HERE}:policy/other/path/ReadOnly",
        "arn:aws:iam::111111111111:policy/x-y",
        "a" * 20,
    ],
)
def test_a_policy_that_does_not_exist_is_not_attached(iam: Any, name: str, arn: str) -> None:
    call = iam.attach_user_policy
    assert aws.refusal(call, UserName=name, PolicyArn=arn) == (404, "NoSuchEntity")


def test_policies_of_the_server_are_listed_and_not_changed(iam: Any) -> None:
    own = iam.list_policies(Scope="AWS")["Policies"]
    assert {"ReadOnly", "S3FullAccess", "TableEngineer"} <= {each["PolicyName"] for each in own}
    arn = f"{OWN}/ReadOnly"
    document = iam.get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"]
    assert document["Statement"][0]["Effect"] == "Allow"
    assert aws.refusal(iam.delete_policy, PolicyArn=arn) == (400, "UnmodifiableEntity")
    call = iam.create_policy_version
    assert aws.refusal(call, PolicyArn=arn, PolicyDocument=DOCUMENT)[1] == "UnmodifiableEntity"
    local = iam.list_policies(Scope="Local", OnlyAttached=True)["Policies"]
    assert all(each["AttachmentCount"] for each in local)


def test_who_may_read_policies_may_read_the_servers_own(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    iam.attach_user_policy(UserName=name, PolicyArn=f"{OWN}/IAMFullAccess")
    arn = f"{OWN}/ReadOnly"
    assert server.client("iam", keys).get_policy(PolicyArn=arn)["Policy"]["Arn"] == arn
    elsewhere = server.client("iam", aws.keys_of("far"))
    for call in (elsewhere.get_policy, elsewhere.list_entities_for_policy):
        assert aws.refusal(call, PolicyArn=arn) == (403, "AccessDenied")


def test_a_page_of_long_items_ends_early(iam: Any) -> None:
    trust = trusting("*")
    trust = trust[:-1] + "\n" * (20_000 - len(trust)) + "}"
    names = [f"long{number}" for number in range(12)]
    for each in names:
        iam.create_role(RoleName=each, AssumeRolePolicyDocument=trust, Path="/long/")
    pages = [*iam.get_paginator("list_roles").paginate(PathPrefix="/long/")]
    assert len(pages) == 2
    assert sorted(role["RoleName"] for page in pages for role in page["Roles"]) == sorted(names)


def test_tags_are_listed_in_pages_and_are_text_that_xml_can_have(iam: Any, name: str) -> None:
    tags = [{"Key": key, "Value": "x y\u2003z"} for key in ("a", "B", "c", "D")]
    iam.tag_user(UserName=name, Tags=tags)
    pages = iam.get_paginator("list_user_tags").paginate(
        UserName=name, PaginationConfig={"PageSize": 1}
    )
    assert [tag for page in pages for tag in page["Tags"]] == tags
    control = [{"Key": "e", "Value": "x\x1fy"}]
    assert aws.refusal(iam.tag_user, UserName=name, Tags=control) == (400, "ValidationError")


@pytest.mark.parametrize("identity", ["user", "role"])
def test_tags_of_users_and_roles_have_keys_without_case(iam: Any, name: str, identity: str) -> None:
    if identity == "role":
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusting(f"{HERE}:root"))
    of = {"UserName" if identity == "user" else "RoleName": name}
    tag, untag = getattr(iam, f"tag_{identity}"), getattr(iam, f"untag_{identity}")
    both = [{"Key": "Stage", "Value": "live"}, {"Key": "stage", "Value": "test"}]
    assert aws.refusal(tag, **of, Tags=both) == (400, "InvalidInput")
    for each in both:
        tag(**of, Tags=[each])
        assert getattr(iam, f"list_{identity}_tags")(**of)["Tags"] == [each]
    untag(**of, TagKeys=["STAGE"])
    assert getattr(iam, f"list_{identity}_tags")(**of)["Tags"] == []
    create = {**of, f"{identity.title()}Name": f"{name}-new", "Tags": both}
    if identity == "role":
        create["AssumeRolePolicyDocument"] = trusting(f"{HERE}:root")
        iam.delete_role(RoleName=name)
    assert aws.refusal(getattr(iam, f"create_{identity}"), **create) == (400, "InvalidInput")


def test_tags_of_policies_and_providers_have_keys_with_case(
    server: aws.Server, iam: Any, name: str
) -> None:
    both = [{"Key": "Class", "Value": "secret"}, {"Key": "class", "Value": "open"}]
    url = "https://idp.example:8443/realm"
    policy = iam.create_policy(PolicyName=name, PolicyDocument=DOCUMENT, Tags=both)["Policy"]["Arn"]
    created = iam.create_open_id_connect_provider(Url=url, ClientIDList=["c"], Tags=both)
    provider = created["OpenIDConnectProviderArn"]
    assert provider == f"{HERE}:oidc-provider/idp.example:8443/realm"
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    mine = server.client("iam", keys)
    allowed = {"Effect": "Allow", "Action": "iam:*", "Resource": "*"}
    for value, effect, is_refused in (
        ("secret", "Deny", True),
        ("open", "Deny", True),
        ("shut", "Deny", False),
        ("open", "Allow", True),
    ):
        condition = {"StringEquals": {"aws:ResourceTag/class": value}}
        tested = {**allowed, "Effect": effect, "Condition": condition}
        statements = [tested, *([allowed] if effect == "Deny" else [])]
        iam.put_user_policy(
            UserName=name,
            PolicyName="own",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": statements}),
        )
        for call, members in (
            ("policy_tags", {"PolicyArn": policy}),
            ("open_id_connect_provider_tags", {"OpenIDConnectProviderArn": provider}),
        ):
            listing = getattr(mine, f"list_{call}")
            if is_refused:
                assert aws.refusal(listing, **members) == (403, "AccessDenied"), (value, call)
                continue
            first = listing(**members, MaxItems=1)
            rest = listing(**members, Marker=first["Marker"])
            assert [*first["Tags"], *rest["Tags"]] == both
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=provider)


def test_a_managed_policy_has_tags_which_are_added_replaced_and_removed(iam: Any) -> None:
    old, new = ({"Key": "Team", "Value": value} for value in ("data", "lake"))
    more = {"Key": "cost", "Value": "1"}
    created = iam.create_policy(PolicyName="tagged", PolicyDocument=DOCUMENT, Tags=[old])
    arn = created["Policy"]["Arn"]
    assert iam.list_policy_tags(PolicyArn=arn)["Tags"] == [old]
    iam.tag_policy(PolicyArn=arn, Tags=[new, more])
    pages = iam.get_paginator("list_policy_tags").paginate(
        PolicyArn=arn, PaginationConfig={"PageSize": 1}
    )
    assert sorted(tag["Key"] for page in pages for tag in page["Tags"]) == ["Team", "cost"]
    iam.untag_policy(PolicyArn=arn, TagKeys=["cost", "absent"])
    assert iam.get_policy(PolicyArn=arn)["Policy"]["Tags"] == [new]
    many = [{"Key": f"k{number}", "Value": ""} for number in range(50)]
    assert aws.refusal(iam.tag_policy, PolicyArn=arn, Tags=many) == (409, "LimitExceeded")
    assert iam.list_policy_tags(PolicyArn=arn)["Tags"] == [new]
    assert iam.get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"]
    servers = f"{OWN}/ReadOnly"
    assert iam.list_policy_tags(PolicyArn=servers)["Tags"] == []
    refused = aws.refusal(iam.tag_policy, PolicyArn=servers, Tags=[old])
    assert refused == (400, "UnmodifiableEntity")
    missing = aws.refusal(iam.list_policy_tags, PolicyArn=f"{arn}-absent")
    assert missing == (404, "NoSuchEntity")


def test_users_of_the_configuration_are_shown_and_not_changed(server: aws.Server, iam: Any) -> None:
    assert iam.get_user(UserName="alice")["User"]["Arn"] == f"{HERE}:user/alice"
    (key,) = iam.list_access_keys(UserName="alice")["AccessKeyMetadata"]
    assert key["AccessKeyId"] == "ALICEKEY"
    (policy,) = iam.list_user_policies(UserName="alice")["PolicyNames"]
    shown = iam.get_user_policy(UserName="alice", PolicyName=policy)["PolicyDocument"]
    assert shown == allowing("s3:*")
    (attached,) = iam.list_attached_user_policies(UserName="rita")["AttachedPolicies"]
    assert attached["PolicyName"] == "ReadOnly"
    assert may_read(server, aws.keys_of("rita"))
    unmodifiable = (400, "UnmodifiableEntity")
    for user in ("alice", "root"):
        assert aws.refusal(iam.create_user, UserName=user) == (409, "EntityAlreadyExists")
        assert aws.refusal(iam.delete_user, UserName=user) == unmodifiable
        assert aws.refusal(iam.create_access_key, UserName=user) == unmodifiable
        call = iam.put_user_policy
        arguments = {"UserName": user, "PolicyName": "p", "PolicyDocument": DOCUMENT}
        assert aws.refusal(call, **arguments) == unmodifiable


def test_nothing_is_done_for_a_caller_without_the_action(server: aws.Server, name: str) -> None:
    carol = server.client("iam", aws.keys_of("carol"))
    for call, members in (
        (carol.create_user, {"UserName": "mallory"}),
        (carol.get_user, {"UserName": name}),
        (carol.get_user, {"UserName": "no-such-user"}),
        (carol.create_access_key, {"UserName": name}),
        (carol.put_user_policy,
         {"UserName": "carol", "PolicyName": "p", "PolicyDocument": DOCUMENT}),
        (carol.create_role, {"RoleName": "r", "AssumeRolePolicyDocument": trusting("*")}),
        (carol.list_users, {}),
        (carol.create_group, {"GroupName": "g"}),
    ):  # fmt: skip
        assert aws.refusal(call, **members) == (403, "AccessDenied")
    root = server.client("iam")
    assert aws.refusal(root.get_user, UserName="mallory") == (404, "NoSuchEntity")
    assert aws.refusal(root.create_group, GroupName="g") == (501, "NotImplemented")


def test_rights_on_identities_follow_their_arns_and_the_policy_that_is_attached(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    rights = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "iam:*AccessKey*", "Resource": f"{HERE}:user/{name}"},
            {
                "Effect": "Allow",
                "Action": "iam:AttachUserPolicy",
                "Resource": f"{HERE}:user/*",
                "Condition": {"ArnEquals": {"iam:PolicyARN": f"{OWN}/ReadOnly"}},
            },
        ],
    }
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(rights))
    mine = server.client("iam", keys)
    assert len(mine.list_access_keys()["AccessKeyMetadata"]) == 1
    assert aws.refusal(mine.list_access_keys, UserName="alice") == (403, "AccessDenied")
    mine.attach_user_policy(UserName=name, PolicyArn=f"{OWN}/ReadOnly")
    call = mine.attach_user_policy
    arn = f"{OWN}/AdministratorAccess"
    assert aws.refusal(call, UserName=name, PolicyArn=arn) == (403, "AccessDenied")


def test_rights_on_identities_follow_their_tags_and_the_tags_of_the_request(
    server: aws.Server, iam: Any, name: str
) -> None:
    keys = aws.Keys.of(iam.create_access_key(UserName=name))
    ours = {"Key": "team", "Value": "ours"}
    other, tagged = f"{name}-other", f"{name}-tagged"
    iam.create_user(UserName=other)
    iam.create_user(UserName=tagged, Tags=[ours])
    statements = [
        ("iam:GetUser", {"StringEquals": {"aws:ResourceTag/Team": "ours"}}),
        ("iam:ListUserTags", {"StringEquals": {"iam:ResourceTag/team": "ours"}}),
        (
            ["iam:CreateUser", "iam:TagUser"],
            {
                "StringEquals": {"aws:RequestTag/team": "${aws:PrincipalTag/team}"},
                "ForAllValues:StringEquals": {"aws:TagKeys": ["team", "note"]},
            },
        ),
        ("iam:UntagUser", {"ForAllValues:StringNotEquals": {"aws:TagKeys": "team"}}),
    ]
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": action, "Resource": "*", "Condition": condition}
            for action, condition in statements
        ],
    }
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(document))
    mine, denied = server.client("iam", keys), (403, "AccessDenied")
    mine.get_user(UserName=tagged)
    assert mine.list_user_tags(UserName=tagged)["Tags"] == [ours]
    assert aws.refusal(mine.get_user, UserName=other) == denied
    assert aws.refusal(mine.list_user_tags, UserName=other) == denied

    new = f"{name}-new"
    assert aws.refusal(mine.create_user, UserName=new, Tags=[ours]) == denied
    iam.tag_user(UserName=name, Tags=[ours])
    assert aws.refusal(mine.create_user, UserName=new) == denied
    more = {"Key": "more", "Value": "x"}
    assert aws.refusal(mine.create_user, UserName=new, Tags=[ours, more]) == denied
    mine.create_user(UserName=new, Tags=[ours])
    mine.tag_user(UserName=other, Tags=[ours, {"Key": "note", "Value": "x"}])
    assert aws.refusal(mine.untag_user, UserName=other, TagKeys=["note", "team"]) == denied
    mine.untag_user(UserName=other, TagKeys=["note"])
    assert iam.list_user_tags(UserName=other)["Tags"] == [ours]


def test_roles_have_trust_policies_and_policies(iam: Any) -> None:
    created = iam.create_role(
        RoleName="Etl",
        Path="/jobs/",
        AssumeRolePolicyDocument=trusting(f"{HERE}:root"),
        Description="loads",
        MaxSessionDuration=7200,
    )["Role"]
    assert created["Arn"] == f"{HERE}:role/jobs/Etl"
    assert created["RoleId"].startswith("AROA")
    assert iam.get_role(RoleName="etl")["Role"] == created
    assert created["AssumeRolePolicyDocument"] == json.loads(trusting(f"{HERE}:root"))
    iam.put_role_policy(RoleName="Etl", PolicyName="read", PolicyDocument=DOCUMENT)
    iam.attach_role_policy(RoleName="Etl", PolicyArn=f"{OWN}/ReadOnly")
    iam.tag_role(RoleName="Etl", Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    iam.untag_role(RoleName="Etl", TagKeys=["a"])
    assert iam.list_role_tags(RoleName="Etl")["Tags"] == [{"Key": "b", "Value": "2"}]
    iam.update_role(RoleName="Etl", Description="more", MaxSessionDuration=3600)
    changed = iam.get_role(RoleName="Etl")["Role"]
    assert (changed["Description"], changed["MaxSessionDuration"]) == ("more", 3600)
    assert [role["RoleName"] for role in iam.list_roles(PathPrefix="/jobs/")["Roles"]] == ["Etl"]
    assert aws.refusal(iam.delete_role, RoleName="Etl") == (409, "DeleteConflict")
    iam.delete_role_policy(RoleName="Etl", PolicyName="read")
    iam.detach_role_policy(RoleName="Etl", PolicyArn=f"{OWN}/ReadOnly")
    iam.delete_role(RoleName="Etl")
    assert aws.refusal(iam.get_role, RoleName="Etl") == (404, "NoSuchEntity")


@pytest.mark.parametrize(
    "document", [DOCUMENT, json.dumps({"Version": "2012-10-17", "Statement": []}), "x"]
)
def test_a_role_needs_a_trust_policy(iam: Any, document: str) -> None:
    call = iam.create_role
    assert aws.refusal(call, RoleName="untrusted", AssumeRolePolicyDocument=document) == (
        400,
        "MalformedPolicyDocument",
    )


@pytest.mark.parametrize("option", ["create_user", "create_role"])
def test_permissions_boundaries_are_refused_not_ignored(iam: Any, option: str) -> None:
    members: dict[str, Any] = {"PermissionsBoundary": f"{OWN}/ReadOnly"}
    if option == "create_user":
        members["UserName"] = "bounded"
    else:
        members |= {"RoleName": "bounded", "AssumeRolePolicyDocument": trusting("*")}
    assert aws.refusal(getattr(iam, option), **members) == (501, "NotImplemented")


def test_identities_outlive_a_restart(tmp_path: Path) -> None:
    with aws.serving(tmp_path) as server:
        iam = server.client("iam")
        iam.create_user(UserName="dora")
        keys = aws.Keys.of(iam.create_access_key(UserName="dora"))
        iam.attach_user_policy(UserName="dora", PolicyArn=f"{OWN}/S3FullAccess")
        server.client("s3", keys).create_bucket(Bucket="kept")
    with aws.serving(tmp_path) as server:
        assert server.client("s3", keys).list_objects_v2(Bucket="kept")["KeyCount"] == 0
    dora = config.User(name="Dora", access_key="DORAKEY", secret_key="dora-secret")
    with pytest.raises(principals.DuplicatePrincipal), aws.serving(tmp_path, users=[dora]):
        pass


def test_a_policy_with_many_variables_is_refused(server: aws.Server, iam: Any, name: str) -> None:
    resources = [f"arn:aws:s3:::docs/${{aws:username}}/{number}" for number in range(33)]
    document = allowing("s3:*")
    for count, is_allowed in ((33, False), (32, True)):
        document["Statement"][0]["Resource"] = resources[:count]
        text = json.dumps(document)
        for call, members in (
            (iam.put_user_policy, {"UserName": name, "PolicyName": "p", "PolicyDocument": text}),
            (iam.create_policy, {"PolicyName": name, "PolicyDocument": text}),
        ):
            if is_allowed:
                call(**members)
            else:
                assert aws.refusal(call, **members) == (400, "MalformedPolicyDocument")


def test_a_user_has_no_groups_and_no_mfa_devices_and_a_role_no_instance_profiles(
    server: aws.Server, iam: Any, name: str
) -> None:
    """Terraform asks for them before it deletes a user or a role."""
    root = server.client("iam")
    root.create_role(RoleName=f"{name}-role", AssumeRolePolicyDocument=trusting("*"))
    groups = root.list_groups_for_user(UserName=name)
    assert (groups["Groups"], groups["IsTruncated"]) == ([], False)
    devices = root.list_mfa_devices(UserName=name)
    assert (devices["MFADevices"], devices["IsTruncated"]) == ([], False)
    assert iam.list_mfa_devices()["MFADevices"] == []
    profiles = root.list_instance_profiles_for_role(RoleName=f"{name}-role")
    assert (profiles["InstanceProfiles"], profiles["IsTruncated"]) == ([], False)
    for call, members in (
        (root.list_groups_for_user, {"UserName": "no-such-user"}),
        (root.list_mfa_devices, {"UserName": "no-such-user"}),
        (root.list_instance_profiles_for_role, {"RoleName": "no-such-role"}),
    ):
        assert aws.refusal(call, **members) == (404, "NoSuchEntity")
