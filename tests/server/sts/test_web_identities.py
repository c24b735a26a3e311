"""AssumeRoleWithWebIdentity, by boto3 and by the SDK's own settings, with an issuer of the test."""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
import botocore.config
import pytest
from botocore.session import Session

from server.oidc import fetching, keysets
from tests.kit import aws
from tests.server.oidc import issuers

ACTION = "sts:AssumeRoleWithWebIdentity"
NUMBERS = itertools.count(1)
READ = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    with aws.serving(tmp_path_factory.mktemp("web") / "data") as running:
        s3 = running.client("s3")
        s3.create_bucket(Bucket="docs")
        s3.put_object(Bucket="docs", Key="a", Body=b"1")
        yield running


@pytest.fixture
def issuer(server: aws.Server) -> Iterator[issuers.Issuer]:
    """A provider that is registered, with one client id."""
    with issuers.serving(server.clock() // 1000) as serving:
        iam = server.client("iam")
        created = iam.create_open_id_connect_provider(
            Url=serving.url, ClientIDList=[issuers.CLIENT]
        )
        assert created["OpenIDConnectProviderArn"] == serving.arn
        yield serving
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=serving.arn)


def trust(issuer: issuers.Issuer, *, principal: Any = None, **condition: Any) -> str:
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": principal or {"Federated": issuer.arn},
        "Action": ACTION,
    }
    if condition:
        statement["Condition"] = condition
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def role_of(server: aws.Server, trusted: str) -> str:
    """The ARN of a new role that may read."""
    iam = server.client("iam")
    name = f"web{next(NUMBERS)}"
    created = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusted)
    iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=READ)
    return str(created["Role"]["Arn"])


@functools.cache
def without_credentials() -> Session:
    """One session for all: each reads AWS's models anew."""
    return Session()


def unsigned(server: aws.Server) -> Any:
    """boto3's client of STS without credentials."""
    return without_credentials().create_client(
        "sts",
        region_name=aws.REGION,
        endpoint_url=server.url,
        config=botocore.config.Config(
            signature_version=botocore.UNSIGNED, retries={"total_max_attempts": 1}
        ),
    )


def assume(server: aws.Server, arn: str, token: str, **members: Any) -> dict[str, Any]:
    whole = {"RoleSessionName": "run", **members}
    answer: dict[str, Any] = unsigned(server).assume_role_with_web_identity(
        RoleArn=arn, WebIdentityToken=token, **whole
    )
    return answer


def refused(server: aws.Server, arn: str, token: str, **members: Any) -> tuple[int, str]:
    return aws.refusal(lambda: assume(server, arn, token, **members))


DENIED = (403, "AccessDenied")
INVALID = (400, "InvalidIdentityToken")
UNREACHABLE = (400, "IDPCommunicationError")


def test_a_token_gives_credentials_with_the_roles_rights(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    equals = {f"{issuer.name}:aud": issuers.CLIENT, f"{issuer.name}:sub": "job-7"}
    arn = role_of(server, trust(issuer, StringEquals=equals))
    answer = assume(server, arn, issuer.token(), DurationSeconds=900)
    assert answer["SubjectFromWebIdentityToken"] == "job-7"
    assert answer["Provider"] == issuer.arn
    assert answer["Audience"] == issuers.CLIENT
    name = arn.rpartition("/")[2]
    session_arn = f"arn:aws:sts::000000000000:assumed-role/{name}/run"
    assert answer["AssumedRoleUser"]["Arn"] == session_arn
    keys = aws.Keys.of(answer)
    assert server.client("sts", keys).get_caller_identity()["Arn"] == session_arn
    assert server.client("s3", keys).get_object(Bucket="docs", Key="a")["Body"].read() == b"1"
    put = server.client("s3", keys).put_object
    assert aws.refusal(put, Bucket="docs", Key="b", Body=b"") == DENIED
    assert len(issuer.fetches) == 2
    assume(server, arn, issuer.token())
    assert len(issuer.fetches) == 2


def test_the_sdks_token_file_is_enough(
    server: aws.Server, issuer: issuers.Issuer, tmp_path: Path
) -> None:
    arn = role_of(server, trust(issuer))
    (tmp_path / "token").write_text(issuer.token())
    program = (
        "import boto3; s3 = boto3.client('s3'); "
        "print(s3.get_object(Bucket='docs', Key='a')['Body'].read().decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
            "AWS_ROLE_ARN": arn,
            "AWS_ENDPOINT_URL": server.url,
            "AWS_REGION": aws.REGION,
            "AWS_DEFAULT_REGION": aws.REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "1", done.stderr


@pytest.mark.parametrize(
    "condition",
    [
        {"StringEquals": {"{}:sub": "job-8"}},
        {"StringEquals": {"{}:aud": "another"}},
        {"StringLike": {"{}:sub": "job-7?"}},
        {"StringEquals": {"127.0.0.1:1/realm:sub": "job-7"}},
        {"StringNotEquals": {"{}:sub": "job-7"}},
        {"IpAddress": {"aws:SourceIp": "192.0.2.1"}},
    ],
)
def test_a_condition_that_the_token_does_not_meet_denies(
    server: aws.Server, issuer: issuers.Issuer, condition: dict[str, dict[str, str]]
) -> None:
    filled = {
        operator: {key.format(issuer.name): value for key, value in keys.items()}
        for operator, keys in condition.items()
    }
    assert refused(server, role_of(server, trust(issuer, **filled)), issuer.token()) == DENIED


def test_a_role_trusts_only_the_providers_that_it_names(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    other = f"{issuer.arn}2"
    for principal in ("*", {"AWS": "*"}, {"AWS": "000000000000"}, {"Federated": other}):
        arn = role_of(server, trust(issuer, principal=principal))
        assert refused(server, arn, issuer.token()) == DENIED
    document = json.loads(trust(issuer))
    del document["Statement"][0]["Principal"]
    document["Statement"][0]["NotPrincipal"] = {"AWS": "arn:aws:iam::000000000000:user/ana"}
    assert refused(server, role_of(server, json.dumps(document)), issuer.token()) == DENIED
    assert refused(server, "arn:aws:iam::000000000000:role/absent", issuer.token()) == DENIED
    statement = {"Effect": "Deny", "Principal": "*", "Action": "sts:*"}
    document = json.loads(trust(issuer))
    document["Statement"].append(statement)
    assert refused(server, role_of(server, json.dumps(document)), issuer.token()) == DENIED


def test_the_right_to_assume_a_role_by_signature_is_none_by_token(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    document = json.loads(trust(issuer))
    document["Statement"][0]["Action"] = "sts:AssumeRole"
    assert refused(server, role_of(server, json.dumps(document)), issuer.token()) == DENIED


def test_tokens_that_are_not_the_providers_are_refused(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    arn = role_of(server, trust(issuer))
    public = issuers.pem(issuers.rsa_key())
    confused = issuers.forged({"alg": "HS256", "kid": "k1"}, issuer.claims(), public)
    assert refused(server, arn, confused) == INVALID
    assert refused(server, arn, issuers.forged({"alg": "none"}, issuer.claims(), None)) == INVALID
    assert refused(server, arn, "x" * 40) == INVALID
    assert refused(server, arn, issuer.token(iss="https://idp.example")) == INVALID
    assert refused(server, arn, issuer.token(iss=issuer.url + "/")) == INVALID
    assert issuer.fetches == []
    assert refused(server, arn, issuer.token(aud="x")) == (403, "IDPRejectedClaim")
    expired = issuer.token(exp=issuer.now_s - 61)
    assert refused(server, arn, expired) == (400, "ExpiredTokenException")
    assert refused(server, arn, issuer.token(), RoleSessionName="a b")[0] == 400


def test_nothing_but_a_registered_provider_is_fetched(server: aws.Server) -> None:
    with issuers.serving(server.clock() // 1000) as stranger:
        arn = role_of(server, trust(stranger))
        assert refused(server, arn, stranger.token()) == INVALID
        headers = {"jku": f"http://127.0.0.1:{stranger.port}/keys"}
        assert refused(server, arn, stranger.token(headers=headers)) == INVALID
        assert stranger.fetches == []


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (302, b"/elsewhere"),
        (500, b""),
        (200, b"not json"),
        (200, b'{"issuer":"https://idp.example","jwks_uri":"http://127.0.0.1:1/keys"}'),
        (200, b'{"issuer":"{url}","jwks_uri":"http://192.0.2.1/keys"}'),
        (200, b'{"issuer":"{url}","jwks_uri":"http://169.254.169.254/latest"}'),
        (200, b'{"issuer":"{url}","jwks_uri":"file:///etc/passwd"}'),
        (200, b'{"issuer":"{url}","jwks_uri":"http://127.0.0.1:1/keys"}'),
        (200, b" " * (fetching.DOCUMENT_BYTES_MAX + 1)),
    ],
)
def test_a_discovery_document_leads_nowhere_else(
    server: aws.Server, issuer: issuers.Issuer, status: int, document: bytes
) -> None:
    path = "/realm/.well-known/openid-configuration"
    issuer.documents[path] = (status, document.replace(b"{url}", issuer.url.encode()))
    arn = role_of(server, trust(issuer))
    assert refused(server, arn, issuer.token()) == UNREACHABLE
    assert issuer.fetches == [path]
    # A failure is remembered for some seconds, so that tokens cause no flood of fetches.
    assert refused(server, arn, issuer.token()) == UNREACHABLE
    assert issuer.fetches == [path]


def test_keys_that_rotate_are_read_again_but_not_for_every_token(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    arn = role_of(server, trust(issuer))
    assume(server, arn, issuer.token())
    issuer.keys = [issuers.jwk(issuers.rsa_key(), "k2")]
    rotated = issuer.token(headers={"kid": "k2"})
    assert refused(server, arn, rotated) == INVALID
    assert len(issuer.fetches) == 2
    offset_ms = server.clock.offset_ms
    try:
        server.clock.offset_ms += keysets.RETRY_SECONDS * 1000
        assume(server, arn, rotated)
        assert len(issuer.fetches) == 4
        assert refused(server, arn, issuer.token()) == INVALID
        assert len(issuer.fetches) == 4
        # While the provider is down its keys hold until they are an hour old.
        issuer.documents["/keys"] = (500, b"")
        server.clock.offset_ms += keysets.RETRY_SECONDS * 1000
        assert refused(server, arn, issuer.token(headers={"kid": "k3"}))[0] == 400
        assume(server, arn, rotated)
        server.clock.offset_ms += keysets.KEYS_SECONDS * 1000
        late = issuer.token(headers={"kid": "k2"}, exp=server.clock() // 1000 + 600)
        assert refused(server, arn, late) == UNREACHABLE
    finally:
        server.clock.offset_ms = offset_ms


def test_a_session_ends_with_its_provider(server: aws.Server, issuer: issuers.Issuer) -> None:
    arn = role_of(server, trust(issuer))
    keys = aws.Keys.of(assume(server, arn, issuer.token()))
    get = server.client("s3", keys).get_object
    assert get(Bucket="docs", Key="a")["Body"].read() == b"1"
    iam = server.client("iam")
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=issuer.arn)
    assert aws.refusal(get, Bucket="docs", Key="a")[0] in (400, 403)
    offset_ms = server.clock.offset_ms
    server.clock.offset_ms += 1_000
    try:
        iam.create_open_id_connect_provider(Url=issuer.url, ClientIDList=[issuers.CLIENT])
    finally:
        server.clock.offset_ms = offset_ms
    assert aws.refusal(get, Bucket="docs", Key="a")[0] in (400, 403)


def test_a_session_may_assume_the_roles_that_trust_it(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    first = role_of(server, trust(issuer))
    iam = server.client("iam")
    iam.put_role_policy(
        RoleName=first.rpartition("/")[2],
        PolicyName="chain",
        PolicyDocument=READ.replace("s3:GetObject", "sts:AssumeRole"),
    )
    chained = json.loads(trust(issuer, principal={"AWS": first}))
    chained["Statement"][0]["Action"] = "sts:AssumeRole"
    second = role_of(server, json.dumps(chained))
    keys = aws.Keys.of(assume(server, first, issuer.token()))
    answer = server.client("sts", keys).assume_role(RoleArn=second, RoleSessionName="next")
    again = aws.Keys.of(answer)
    assert server.client("s3", again).get_object(Bucket="docs", Key="a")["Body"].read() == b"1"
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=issuer.arn)
    get = server.client("s3", again).get_object
    assert aws.refusal(get, Bucket="docs", Key="a")[0] in (400, 403)


def test_a_session_policy_bounds_the_session(server: aws.Server, issuer: issuers.Issuer) -> None:
    arn = role_of(server, trust(issuer))
    policy = READ.replace("s3:GetObject", "s3:PutObject")
    keys = aws.Keys.of(assume(server, arn, issuer.token(), Policy=policy))
    get = server.client("s3", keys).get_object
    assert aws.refusal(get, Bucket="docs", Key="a") == DENIED


def test_many_tokens_at_once_fetch_the_keys_once(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    arn = role_of(server, trust(issuer))
    outcomes: list[str] = []

    def ask() -> None:
        outcomes.append(assume(server, arn, issuer.token())["Audience"])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [issuers.CLIENT] * 6
    assert len(issuer.fetches) == 2


def test_the_other_operations_still_need_a_signature(server: aws.Server) -> None:
    client = unsigned(server)
    assert aws.refusal(client.get_caller_identity)[0] == 403
    arn = "arn:aws:iam::000000000000:role/x"
    assert aws.refusal(client.assume_role, RoleArn=arn, RoleSessionName="run")[0] == 403
    form = {"Action": "CreateUser", "Version": "2010-05-08", "UserName": "eve"}
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    connection.request(
        "POST",
        "/",
        urllib.parse.urlencode(form),
        {"content-type": "application/x-www-form-urlencoded"},
    )
    assert connection.getresponse().status in (400, 403)
    connection.close()
    assert aws.refusal(server.client("iam").get_user, UserName="eve") == (404, "NoSuchEntity")


def test_the_keys_of_a_provider_that_is_out_of_reach_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [issuers.jwk(issuers.rsa_key(2), "old")]}))
    url = "https://idp.invalid/realm"
    with aws.serving(tmp_path / "data", identity_provider_keys={f"{url}/": str(file)}) as server:
        issuer = issuers.Issuer(port=1, now_s=server.clock() // 1000)
        server.client("iam").create_open_id_connect_provider(Url=url, ClientIDList=[issuers.CLIENT])
        arn = "arn:aws:iam::000000000000:oidc-provider/idp.invalid/realm"
        role = role_of(server, trust(issuer, principal={"Federated": arn}))
        token = issuer.token(iss=url)
        assert refused(server, role, token) == INVALID
        # A provider that changes its keys is followed by changing the file.
        file.write_text(json.dumps({"keys": issuer.keys}))
        server.clock.offset_ms += keysets.RETRY_SECONDS * 1000
        assert assume(server, role, token)["Provider"] == arn
        file.write_text("{")
        server.clock.offset_ms += keysets.RETRY_SECONDS * 1000
        other = issuer.token(iss=url, headers={"kid": "new"})
        assert refused(server, role, other) == UNREACHABLE
        # The keys that were read hold meanwhile.
        assert assume(server, role, token)["Provider"] == arn


def test_providers_are_shown_changed_and_deleted(server: aws.Server) -> None:
    iam = server.client("iam")
    url = "https://idp.example/realm"
    arn = "arn:aws:iam::000000000000:oidc-provider/idp.example/realm"
    of = {"OpenIDConnectProviderArn": arn}
    created = iam.create_open_id_connect_provider(
        Url=url, ClientIDList=["a"], ThumbprintList=["A" * 40], Tags=[{"Key": "k", "Value": "v"}]
    )
    assert created["OpenIDConnectProviderArn"] == arn
    create = iam.create_open_id_connect_provider
    assert aws.refusal(create, Url=url) == (409, "EntityAlreadyExists")
    for wrong in ("http://idp.example", "idp.example", "https://x?y"):
        assert aws.refusal(create, Url=wrong) == (400, "InvalidInput")
    assert aws.refusal(create, Url="https://x", ThumbprintList=["z" * 40])[0] == 400
    iam.add_client_id_to_open_id_connect_provider(**of, ClientID="b")
    iam.add_client_id_to_open_id_connect_provider(**of, ClientID="b")
    iam.remove_client_id_from_open_id_connect_provider(**of, ClientID="a")
    iam.update_open_id_connect_provider_thumbprint(**of, ThumbprintList=["b" * 40])
    iam.tag_open_id_connect_provider(**of, Tags=[{"Key": "n", "Value": "w"}])
    iam.untag_open_id_connect_provider(**of, TagKeys=["k"])
    shown = iam.get_open_id_connect_provider(**of)
    assert shown["Url"] == "idp.example/realm"
    assert shown["ClientIDList"] == ["b"]
    assert shown["ThumbprintList"] == ["b" * 40]
    assert shown["Tags"] == [{"Key": "n", "Value": "w"}]
    assert iam.list_open_id_connect_provider_tags(**of)["Tags"] == shown["Tags"]
    assert {"Arn": arn} in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    iam.delete_open_id_connect_provider(**of)
    assert aws.refusal(iam.get_open_id_connect_provider, **of) == (404, "NoSuchEntity")
    iam.delete_open_id_connect_provider(**of)


def test_condition_keys_of_services_are_no_providers(server: aws.Server) -> None:
    for key in ("aws:sub", "s3:aud", "nobody:else", "idp.example:email"):
        statement = {
            "Effect": "Allow",
            "Principal": {"Federated": "arn:aws:iam::000000000000:oidc-provider/x"},
            "Action": ACTION,
            "Condition": {"StringEquals": {key: "x"}},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        create = server.client("iam").create_role
        refusal = aws.refusal(create, RoleName="r", AssumeRolePolicyDocument=document)
        assert refusal == (400, "MalformedPolicyDocument"), key
