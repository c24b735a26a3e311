"""Roles, assumed with boto3: trust, session policies, and how their credentials end."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from sql import shell
from tests.kit import aws, programs
from tests.server.sts import roles
from tests.server.sts.roles import (
    DENIED,
    HERE,
    READ,
    allow,
    assumed,
    document,
    may_read,
    refused,
    role_of,
)

OWN = "arn:aws:iam::aws:policy"
ELSEWHERE = "111111111111"
MINUTE_MS = 60_000


def trust(*principals: str, **more: Any) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": list(principals)},
        "Action": "sts:AssumeRole",
        **more,
    }
    return json.dumps(document(statement))


USERS = programs.users(
    {
        "alice": [document(allow("sts:AssumeRole"))],
        "bob": [document(allow("s3:*"))],
        "carol": [],
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    folder = tmp_path_factory.mktemp("roles") / "data"
    with roles.serving(folder, USERS) as running:
        yield running


def test_a_session_has_the_roles_rights_and_not_the_users(server: aws.Server) -> None:
    bob = aws.keys_of("bob")
    arn = role_of(server, trust(f"{HERE}:user/bob"))
    answer = server.client("sts", bob).assume_role(RoleArn=arn, RoleSessionName="night")
    name = arn.rpartition("/")[2]
    session_arn = f"arn:aws:sts::000000000000:assumed-role/{name}/night"
    assert answer["AssumedRoleUser"]["Arn"] == session_arn
    assert answer["AssumedRoleUser"]["AssumedRoleId"].endswith(":night")
    session = aws.Keys.of(answer)
    identity = server.client("sts", session).get_caller_identity()
    assert identity["Arn"] == session_arn
    assert identity["UserId"] == answer["AssumedRoleUser"]["AssumedRoleId"]
    assert may_read(server, session)
    call = server.client("s3", session).put_object
    assert aws.refusal(call, Bucket="docs", Key="c", Body=b"") == DENIED


@pytest.mark.parametrize(
    ("trusted", "user", "is_allowed"),
    [
        # Who is named needs no policy; an account stands for those of its users that may.
        (trust(f"{HERE}:user/carol"), "carol", True),
        (trust(f"{HERE}:user/carol"), "alice", False),
        (trust(f"{HERE}:root"), "alice", True),
        (trust("000000000000"), "alice", True),
        (trust(f"{HERE}:root"), "carol", False),
        (trust("*"), "carol", True),
        (trust(ELSEWHERE), "alice", False),
        (trust(f"{HERE}:user/carol").replace("sts:AssumeRole", "sts:TagSession"), "carol", False),
    ],
)
def test_a_trust_policy_says_which_principals_may_assume_a_role(
    server: aws.Server, trusted: str, user: str, *, is_allowed: bool
) -> None:
    arn = role_of(server, trusted)
    if is_allowed:
        assert may_read(server, assumed(server, aws.keys_of(user), arn))
    else:
        assert refused(server, aws.keys_of(user), arn) == DENIED


def test_a_denial_of_the_users_own_policy_binds(server: aws.Server) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="erin")
    keys = aws.Keys.of(iam.create_access_key(UserName="erin"))
    arn = role_of(server, trust(f"{HERE}:user/erin"))
    assumed(server, keys, arn)
    denial = {"Effect": "Deny", "Action": "sts:*", "Resource": arn}
    iam.put_user_policy(
        UserName="erin", PolicyName="no", PolicyDocument=json.dumps(document(denial))
    )
    assert refused(server, keys, arn) == DENIED


def test_an_external_id_is_a_condition_of_the_trust_policy(server: aws.Server) -> None:
    condition = {"StringEquals": {"sts:ExternalId": "contract-7"}}
    arn = role_of(server, trust(f"{HERE}:user/carol", Condition=condition))
    carol = aws.keys_of("carol")
    assert refused(server, carol, arn) == DENIED
    assert refused(server, carol, arn, ExternalId="contract-8") == DENIED
    assert may_read(server, assumed(server, carol, arn, ExternalId="contract-7"))


def test_tags_of_caller_and_role_are_conditions(server: aws.Server) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="tess", Tags=[{"Key": "team", "Value": "red"}])
    keys = aws.Keys.of(iam.create_access_key(UserName="tess"))
    condition = {"StringEquals": {"aws:PrincipalTag/team": "red"}}
    arn = role_of(server, trust(f"{HERE}:user/tess", Condition=condition))
    assert may_read(server, assumed(server, keys, arn))
    iam.tag_user(UserName="tess", Tags=[{"Key": "team", "Value": "blue"}])
    assert refused(server, keys, arn) == DENIED

    arn = role_of(server, trust(f"{HERE}:user/tess"))
    denial = {
        "Effect": "Deny",
        "Action": "sts:AssumeRole",
        "Resource": "*",
        "Condition": {"StringEquals": {"aws:ResourceTag/use": "night"}},
    }
    iam.put_user_policy(
        UserName="tess", PolicyName="no", PolicyDocument=json.dumps(document(denial))
    )
    assert may_read(server, assumed(server, keys, arn))
    iam.tag_role(RoleName=arn.rpartition("/")[2], Tags=[{"Key": "use", "Value": "night"}])
    assert refused(server, keys, arn) == DENIED


def test_an_absent_role_looks_like_one_that_may_not_be_assumed(server: aws.Server) -> None:
    assert refused(server, aws.keys_of("carol"), f"{HERE}:role/no-such-role") == DENIED
    assert refused(server, aws.ROOT, f"{HERE}:role/no-such-role") == DENIED
    arn = role_of(server, trust("*"), Path="/jobs/")
    assert refused(server, aws.keys_of("carol"), arn.replace("/jobs/", "/")) == DENIED


def test_a_session_policy_narrows_and_never_widens(server: aws.Server) -> None:
    arn = role_of(server, trust("*"))
    carol = aws.keys_of("carol")
    only_a = json.dumps(document(allow("s3:*", resource="arn:aws:s3:::docs/a")))
    session = assumed(server, carol, arn, Policy=only_a)
    assert may_read(server, session)
    assert not may_read(server, session, "b")
    call = server.client("s3", session).put_object
    assert aws.refusal(call, Bucket="docs", Key="a", Body=b"") == DENIED
    none = assumed(server, carol, arn, PolicyArns=[{"arn": f"{OWN}/LakeReader"}])
    assert not may_read(server, none)
    both = assumed(server, carol, arn, Policy=only_a, PolicyArns=[{"arn": f"{OWN}/ReadOnly"}])
    assert may_read(server, both, "b")


def test_a_session_policy_bounds_what_a_bucket_policy_allows_too(server: aws.Server) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="shared")
    s3.put_object(Bucket="shared", Key="a", Body=b"1")
    arn = role_of(server, trust("*"))
    statement = allow("s3:GetObject", resource="arn:aws:s3:::shared/*", Principal={"AWS": arn})
    s3.put_bucket_policy(Bucket="shared", Policy=json.dumps(document(statement)))
    nothing = json.dumps(document(allow("s3:PutObject")))
    carol = aws.keys_of("carol")
    server.client("iam").delete_role_policy(RoleName=arn.rpartition("/")[2], PolicyName="p")
    free = server.client("s3", assumed(server, carol, arn))
    assert free.get_object(Bucket="shared", Key="a")["Body"].read() == b"1"
    bounded = server.client("s3", assumed(server, carol, arn, Policy=nothing))
    assert aws.refusal(bounded.get_object, Bucket="shared", Key="a") == DENIED


def test_a_session_ends_at_once_with_its_role_its_policies_and_its_source(
    server: aws.Server,
) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="frank")
    source = aws.Keys.of(iam.create_access_key(UserName="frank"))
    arn = role_of(server, trust(f"{HERE}:user/frank"))
    name = arn.rpartition("/")[2]
    session = assumed(server, source, arn)
    assert may_read(server, session)
    iam.delete_role_policy(RoleName=name, PolicyName="p")
    assert not may_read(server, session)
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=READ)
    assert may_read(server, session)
    iam.update_access_key(UserName="frank", AccessKeyId=source.access_key, Status="Inactive")
    identity = server.client("sts", session).get_caller_identity
    assert aws.refusal(identity) == (403, "InvalidClientTokenId")
    iam.update_access_key(UserName="frank", AccessKeyId=source.access_key, Status="Active")
    assert may_read(server, session)
    iam.delete_role_policy(RoleName=name, PolicyName="p")
    iam.delete_role(RoleName=name)
    assert aws.refusal(identity) == (403, "InvalidClientTokenId")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("*"))
    assert aws.refusal(identity) == (403, "InvalidClientTokenId")


def test_sessions_older_than_a_time_are_denied_by_the_time_of_their_issue(
    server: aws.Server,
) -> None:
    arn = role_of(server, trust("*"))
    carol = aws.keys_of("carol")
    try:
        server.clock.offset_ms = -10 * MINUTE_MS
        old = assumed(server, carol, arn)
        server.clock.offset_ms = 0
        fresh = assumed(server, carol, arn)
        moment = (server.clock() - 5 * MINUTE_MS) // 1000
        denial = {
            "Effect": "Deny",
            "Action": "*",
            "Resource": "*",
            "Condition": {"DateLessThan": {"aws:TokenIssueTime": str(moment)}},
        }
        server.client("iam").put_role_policy(
            RoleName=arn.rpartition("/")[2],
            PolicyName="AWSRevokeOlderSessions",
            PolicyDocument=json.dumps(document(denial)),
        )
        assert not may_read(server, old)
        assert may_read(server, fresh)
    finally:
        server.clock.offset_ms = 0


def test_a_session_lasts_as_long_as_its_role_allows(server: aws.Server) -> None:
    carol = aws.keys_of("carol")
    short = role_of(server, trust("*"))
    assert refused(server, carol, short, DurationSeconds=3601) == (400, "ValidationError")
    long = role_of(server, trust("*"), MaxSessionDuration=43_200)
    assumed(server, carol, long, DurationSeconds=43_200)


def test_a_role_of_a_role_lasts_an_hour(server: aws.Server) -> None:
    may_assume = json.dumps(document(allow("sts:AssumeRole")))
    first = role_of(server, trust("*"), policy=may_assume)
    last = role_of(server, trust(first), MaxSessionDuration=43_200)
    session = assumed(server, aws.keys_of("carol"), first)
    assert may_read(server, assumed(server, session, last))
    assert refused(server, session, last, DurationSeconds=3601) == (400, "ValidationError")
    assert refused(server, aws.keys_of("alice"), last) == DENIED


def test_a_source_identity_stays_from_role_to_role_and_is_a_condition(server: aws.Server) -> None:
    actions = ["sts:AssumeRole", "sts:SetSourceIdentity"]
    of_erin = {"StringEquals": {"aws:SourceIdentity": "erin"}}
    policy = json.dumps(document(allow("s3:GetObject", Condition=of_erin), allow(*actions)))
    first = role_of(server, trust("*", Action=actions), policy=policy)
    carol = aws.keys_of("carol")
    answer = server.client("sts", carol).assume_role(
        RoleArn=first, RoleSessionName="night", SourceIdentity="erin"
    )
    assert answer["SourceIdentity"] == "erin"
    session = aws.Keys.of(answer)
    assert may_read(server, session)
    assert not may_read(server, assumed(server, carol, first))
    assert not may_read(server, assumed(server, carol, first, SourceIdentity="frank"))

    last = role_of(server, trust("*", Action=actions), policy=policy)
    assert may_read(server, assumed(server, session, last))
    assert may_read(server, assumed(server, session, last, SourceIdentity="erin"))
    assert refused(server, session, last, SourceIdentity="frank") == (400, "ValidationError")
    assert refused(server, session, role_of(server, trust("*"))) == DENIED
    only_erin = {"StringEquals": {"sts:SourceIdentity": "erin"}}
    chosen = role_of(server, trust("*", Action=actions, Condition=only_erin))
    assumed(server, carol, chosen, SourceIdentity="erin")
    assert refused(server, carol, chosen, SourceIdentity="frank") == DENIED
    assert refused(server, carol, chosen) == DENIED


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"RoleSessionName": "a b"}, (400, "ValidationError")),
        ({"RoleSessionName": "é" * 5}, (400, "ValidationError")),
        ({"DurationSeconds": 899}, (400, "ValidationError")),
        ({"Policy": "{"}, (400, "MalformedPolicyDocument")),
        ({"Policy": json.dumps(document(allow("s3:NoSuch")))}, (400, "MalformedPolicyDocument")),
        (
            {
                "Policy": json.dumps(
                    document(allow("s3:*", resource="arn:aws:s3:::" + "${aws:userid}" * 33))
                )
            },
            (400, "MalformedPolicyDocument"),
        ),
        ({"PolicyArns": [{"arn": f"{OWN}/NoSuchPolicy"}]}, (400, "ValidationError")),
        ({"PolicyArns": [{"arn": f"{OWN}/ReadOnly"}] * 11}, (400, "ValidationError")),
        ({"Tags": [{"Key": "a", "Value": "b"}]}, (403, "AccessDenied")),
        ({"SourceIdentity": "someone"}, (403, "AccessDenied")),
        ({"SourceIdentity": "s"}, (400, "ValidationError")),
        ({"SourceIdentity": "a b"}, (400, "ValidationError")),
        ({"SerialNumber": "arn:aws:iam::000000000000:mfa/x"}, (501, "NotImplemented")),
    ],
)
def test_assume_role_refuses_what_it_cannot_grant(
    server: aws.Server, members: dict[str, Any], expected: tuple[int, str]
) -> None:
    arn = role_of(server, trust("*"))
    assert refused(server, aws.keys_of("carol"), arn, **members) == expected


def test_the_longest_session_policy_fits_its_token_or_is_refused(server: aws.Server) -> None:
    arn = role_of(server, trust("*"))
    carol = aws.keys_of("carol")
    resources = [f"arn:aws:s3:::docs/{number:040}" for number in range(31)]
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::docs/a"]}
    statement["Resource"] += resources
    text = json.dumps(document(statement), separators=(",", ":"))
    assert 1_900 < len(text) <= 2_048
    assert may_read(server, assumed(server, carol, arn, Policy=text))
    wide = json.dumps(document(allow("s3:*", resource="arn:aws:s3:::docs/" + "é" * 1_800)))
    wide = wide.replace("\\u00e9", "é")
    assert refused(server, carol, arn, Policy=wide) == (400, "PackedPolicyTooLarge")


def test_a_bucket_policy_can_name_a_session_and_its_role(server: aws.Server) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="named")
    s3.put_object(Bucket="named", Key="a", Body=b"1")
    arn = role_of(server, trust("*"), policy=json.dumps(document(allow("s3:*"))))
    session = server.client("s3", assumed(server, aws.keys_of("carol"), arn))
    session.get_object(Bucket="named", Key="a")
    name = arn.rpartition("/")[2]
    for principal in (arn, f"arn:aws:sts::000000000000:assumed-role/{name}/night"):
        statement = {
            "Effect": "Deny",
            "Principal": {"AWS": principal},
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::named/*",
        }
        s3.put_bucket_policy(Bucket="named", Policy=json.dumps(document(statement)))
        assert aws.refusal(session.get_object, Bucket="named", Key="a") == DENIED
        s3.delete_bucket_policy(Bucket="named")
        session.get_object(Bucket="named", Key="a")


EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


def token_of(server: aws.Server, **form: str) -> tuple[int, dict[str, Any]]:
    """The answer of the catalog's token endpoint."""
    return rest(server, "oauth/tokens", data=urllib.parse.urlencode(form).encode())


def rest(
    server: aws.Server, path: str, token: str = "", data: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"{server.url}/iceberg/v1/{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_token_of_a_role_has_the_roles_rights_and_keeps_its_role(server: aws.Server) -> None:
    lake = json.dumps(document(allow("s3tables:*")))
    arn = role_of(server, trust(f"{HERE}:user/bob"), policy=lake)
    name = arn.rpartition("/")[2]
    pair = {"client_id": "BOBKEY", "client_secret": "bob-secret"}
    status, own = token_of(server, grant_type="client_credentials", **pair)
    assert (status, rest(server, "lake/namespaces", own["access_token"])[0]) == (200, 403)
    scope = f"catalog PRINCIPAL_ROLE:{name}"
    status, answer = token_of(server, grant_type="client_credentials", scope=scope, **pair)
    assert (status, answer["scope"]) == (200, scope)
    token = answer["access_token"]
    assert rest(server, "lake/namespaces", token)[0] == 200

    exchange = {"grant_type": EXCHANGE, "subject_token": token}
    status, answer = token_of(server, **exchange)
    assert status == 200
    for body in (b'{"namespace": ["of_a_role"]}',):
        request = urllib.request.Request(
            f"{server.url}/iceberg/v1/lake/namespaces",
            body,
            {"authorization": f"Bearer {answer['access_token']}"},
        )
        with urllib.request.urlopen(request, timeout=60) as listing:
            assert listing.status == 200
    status, answer = token_of(server, **exchange, scope="PRINCIPAL_ROLE:other")
    assert (status, answer["error"]) == (400, "invalid_scope")

    server.client("iam").delete_role_policy(RoleName=name, PolicyName="p")
    assert rest(server, "lake/namespaces", token)[0] == 403
    server.client("iam").delete_role(RoleName=name)
    assert rest(server, "lake/namespaces", token)[0] == 401
    status, answer = token_of(server, **exchange)
    assert (status, answer["error"]) == (400, "invalid_grant")


def test_a_token_of_a_role_is_renewed_only_while_the_role_may_be_assumed(
    server: aws.Server,
) -> None:
    arn = role_of(server, trust(f"{HERE}:user/bob"))
    name = arn.rpartition("/")[2]
    pair = {"client_id": "BOBKEY", "client_secret": "bob-secret"}
    scope = f"PRINCIPAL_ROLE:{name}"
    _, answer = token_of(server, grant_type="client_credentials", scope=scope, **pair)
    exchange = {"grant_type": EXCHANGE, "subject_token": answer["access_token"]}
    assert token_of(server, **exchange)[0] == 200
    server.client("iam").update_assume_role_policy(
        RoleName=name, PolicyDocument=trust(f"{HERE}:user/alice")
    )
    for more in ({}, pair, {"scope": scope}):
        status, answer = token_of(server, **exchange, **more)
        assert (status, answer["error"]) == (400, "invalid_grant")


def test_a_token_of_a_role_is_refused_to_who_may_not_assume_it(server: aws.Server) -> None:
    arn = role_of(server, trust(f"{HERE}:user/alice"))
    pair = {"client_id": "BOBKEY", "client_secret": "bob-secret"}
    for role in (arn.rpartition("/")[2], "no-such-role"):
        status, answer = token_of(
            server, grant_type="client_credentials", scope=f"PRINCIPAL_ROLE:{role}", **pair
        )
        assert (status, answer["error"]) == (400, "invalid_scope")


def test_a_token_of_a_role_opens_no_sql_session_as_its_user(server: aws.Server) -> None:
    arn = role_of(server, trust(f"{HERE}:user/bob"))
    scope = f"PRINCIPAL_ROLE:{arn.rpartition('/')[2]}"
    pair = {"client_id": "BOBKEY", "client_secret": "bob-secret"}
    for more, is_right in (({}, True), ({"scope": scope}, False)):
        _, answer = token_of(server, grant_type="client_credentials", **pair, **more)
        login = {"LOGIN_NAME": "bob", "AUTHENTICATOR": "OAUTH", "TOKEN": answer["access_token"]}
        request = urllib.request.Request(
            f"{server.url}/session/v1/login-request",
            json.dumps({"data": {**login, "ACCOUNT_NAME": "a"}}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as opened:
            assert json.loads(opened.read())["success"] is is_right


def test_a_sql_session_ends_with_the_key_pair_of_its_login(server: aws.Server) -> None:
    iam = server.client("iam")
    iam.create_user(UserName="sqluser")
    iam.attach_user_policy(UserName="sqluser", PolicyArn=f"{OWN}/ReadOnly")
    keys = aws.Keys.of(iam.create_access_key(UserName="sqluser"))
    client = shell.Client(url=server.url)
    client.login(user="sqluser", password=keys.secret_key, database="lake", schema="")
    (rows,) = client.query("show databases")
    assert rows["rowset"]
    iam.detach_user_policy(UserName="sqluser", PolicyArn=f"{OWN}/ReadOnly")
    (rows,) = client.query("show databases")
    assert not rows["rowset"]
    iam.update_access_key(UserName="sqluser", AccessKeyId=keys.access_key, Status="Inactive")
    with pytest.raises(shell.ShellError):
        list(client.query("select 1"))
    again = shell.Client(url=server.url)
    for password in (keys.secret_key, ""):
        with pytest.raises(shell.ShellError):
            again.login(user="sqluser", password=password, database="", schema="")


def test_files_of_a_table_are_read_with_a_roles_rights_as_they_are(server: aws.Server) -> None:
    lake = json.dumps(document(allow("s3tables:*")))
    arn = role_of(server, trust("*"), policy=lake)
    tables = server.client("s3tables", assumed(server, aws.keys_of("carol"), arn))
    bucket = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake"
    tables.create_namespace(tableBucketARN=bucket, namespace=["vended"])
    schema = {"fields": [{"name": "id", "type": "long"}]}
    tables.create_table(
        tableBucketARN=bucket,
        namespace="vended",
        name="t",
        format="ICEBERG",
        metadata={"iceberg": {"schema": schema}},
    )
    pair = {"client_id": "CAROLKEY", "client_secret": "carol-secret"}
    scope = f"PRINCIPAL_ROLE:{arn.rpartition('/')[2]}"
    _, answer = token_of(server, grant_type="client_credentials", scope=scope, **pair)
    request = urllib.request.Request(
        f"{server.url}/iceberg/v1/lake/namespaces/vended/tables/t",
        headers={
            "authorization": f"Bearer {answer['access_token']}",
            "x-iceberg-access-delegation": "vended-credentials",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as loaded:
        table = json.loads(loaded.read())
    config = table["config"]
    keys = aws.Keys(
        access_key=config["s3.access-key-id"],
        secret_key=config["s3.secret-access-key"],
        token=config["s3.session-token"],
    )
    s3 = server.client("s3", keys)
    key = table["metadata-location"].removeprefix("s3://lake/")
    assert s3.get_object(Bucket="lake", Key=key)["Body"].read()
    assert aws.refusal(s3.get_object, Bucket="docs", Key="a") == DENIED
    iam = server.client("iam")
    name = arn.rpartition("/")[2]
    iam.delete_role_policy(RoleName=name, PolicyName="p")
    assert aws.refusal(s3.get_object, Bucket="lake", Key=key) == DENIED
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=lake)
    assert s3.get_object(Bucket="lake", Key=key)["Body"].read()
    iam.delete_role_policy(RoleName=name, PolicyName="p")
    iam.delete_role(RoleName=name)
    assert aws.refusal(s3.get_object, Bucket="lake", Key=key)[0] in (400, 403)
