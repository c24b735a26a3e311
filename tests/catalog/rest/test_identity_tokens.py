"""The token endpoint of the catalog takes tokens of identity providers that IAM knows."""

from __future__ import annotations

import http.client
import itertools
import json
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ForbiddenError

from tests.kit import aws
from tests.server.oidc import issuers

ACTION = "sts:AssumeRoleWithWebIdentity"
NUMBERS = itertools.count(1)
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPES = "urn:ietf:params:oauth:token-type:"
READ = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3tables:List*", "s3tables:Get*"],
            "Resource": "*",
        }
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    with aws.serving(tmp_path_factory.mktemp("web") / "data") as running:
        yield running


@pytest.fixture
def issuer(server: aws.Server) -> Iterator[issuers.Issuer]:
    """A provider that is registered, with one client id."""
    with issuers.serving(server.clock() // 1000) as serving:
        iam = server.client("iam")
        iam.create_open_id_connect_provider(Url=serving.url, ClientIDList=[issuers.CLIENT])
        yield serving
        iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=serving.arn)


def role_of(server: aws.Server, issuer: issuers.Issuer, *, subject: str = "job-7") -> str:
    """The name of a new role that a subject of the issuer may assume, and that may read."""
    name = f"reader{next(NUMBERS)}"
    statement = {
        "Effect": "Allow",
        "Principal": {"Federated": issuer.arn},
        "Action": ACTION,
        "Condition": {"StringEquals": {f"{issuer.name}:sub": subject}},
    }
    trusted = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam = server.client("iam")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusted)
    iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=json.dumps(READ))
    return name


def ask(server: aws.Server, **form: str) -> tuple[int, dict[str, Any]]:
    """Ask for a token, without any other credential."""
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    try:
        connection.request(
            "POST",
            "/iceberg/v1/oauth/tokens",
            urllib.parse.urlencode(form),
            {"content-type": "application/x-www-form-urlencoded"},
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def exchange(
    server: aws.Server, token: str, scope: str, *, token_type: str = "jwt"
) -> tuple[int, dict[str, Any]]:
    return ask(
        server,
        grant_type=EXCHANGE,
        subject_token=token,
        subject_token_type=TYPES + token_type,
        scope=scope,
    )


def catalog(server: aws.Server, token: str) -> Any:
    return load_catalog(
        "lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake", token=token
    )


@pytest.mark.parametrize("token_type", ["jwt", "id_token"])
def test_a_providers_token_gives_one_with_the_roles_rights(
    server: aws.Server, issuer: issuers.Issuer, token_type: str
) -> None:
    scope = f"catalog PRINCIPAL_ROLE:{role_of(server, issuer)}"
    status, answer = exchange(server, issuer.token(), scope, token_type=token_type)
    assert status == 200, answer
    assert answer["token_type"] == "bearer"
    assert answer["scope"] == scope
    reader = catalog(server, answer["access_token"])
    assert reader.list_namespaces() == []
    with pytest.raises(ForbiddenError, match="not authorized"):
        reader.create_namespace("made")


def test_a_session_ends_with_its_role_and_with_its_provider(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    iam = server.client("iam")
    role = role_of(server, issuer)
    _, answer = exchange(server, issuer.token(), f"PRINCIPAL_ROLE:{role}")
    token = answer["access_token"]
    assert status_of(server, token) == 200
    iam.delete_role_policy(RoleName=role, PolicyName="read")
    assert status_of(server, token) == 403
    iam.delete_role(RoleName=role)
    assert status_of(server, token) == 401

    _, answer = exchange(server, issuer.token(), f"PRINCIPAL_ROLE:{role_of(server, issuer)}")
    token = answer["access_token"]
    assert status_of(server, token) == 200
    iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=issuer.arn)
    assert status_of(server, token) == 401
    iam.create_open_id_connect_provider(Url=issuer.url, ClientIDList=[issuers.CLIENT])
    assert status_of(server, token) == 401  # the provider is another one


def status_of(server: aws.Server, token: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    try:
        headers = {"authorization": f"Bearer {token}"}
        connection.request("GET", "/iceberg/v1/lake/namespaces", headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_a_session_of_a_providers_token_is_not_renewed_by_itself(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    """Its conditions held for the provider's token, which is not kept."""
    scope = f"PRINCIPAL_ROLE:{role_of(server, issuer)}"
    _, answer = exchange(server, issuer.token(), scope)
    status, refusal = exchange(server, answer["access_token"], scope, token_type="access_token")
    assert (status, refusal["error"]) == (400, "invalid_grant")
    assert "exchange a new one of the provider" in refusal["error_description"]


def test_what_is_not_trusted_gets_no_token(server: aws.Server, issuer: issuers.Issuer) -> None:
    role = role_of(server, issuer)
    scope = f"PRINCIPAL_ROLE:{role}"
    other = role_of(server, issuer, subject="job-8")

    def refused(token: str, wanted: str = scope, **more: str) -> str:
        status, answer = exchange(server, token, wanted, **more)
        assert status == 400, answer
        assert token not in json.dumps(answer) or not token
        return str(answer["error"])

    good = issuer.token()
    assert refused(good, "") == "invalid_scope"
    assert refused(good, "PRINCIPAL_ROLE:ALL") == "invalid_scope"
    assert refused(good, f"{scope} PRINCIPAL_ROLE:{other}") == "invalid_scope"
    assert refused(good, f"PRINCIPAL_ROLE:{other}") == "invalid_scope"
    assert refused(good, "PRINCIPAL_ROLE:nobody") == "invalid_scope"
    assert refused(issuer.token(sub="job-9")) == "invalid_scope"
    assert refused(issuer.token(aud="another")) == "invalid_grant"
    assert refused(issuer.token(iss="https://idp.invalid/x")) == "invalid_grant"
    assert refused(issuer.token(exp=server.clock() // 1000 - 3600)) == "invalid_grant"
    assert refused(good[:-8] + "AAAAAAAA") == "invalid_grant"
    assert refused("no.to.ken") == "invalid_grant"
    assert refused("") == "invalid_request"
    assert refused(good, token_type="access_token") == "invalid_grant"
    assert refused(good, token_type="saml2") == "invalid_request"
    # A key pair that is wrong is refused, whatever else is right.
    status, answer = ask(
        server,
        grant_type=EXCHANGE,
        subject_token=good,
        subject_token_type=f"{TYPES}jwt",
        scope=scope,
        client_id="none",
        client_secret="wrong",
    )
    assert (status, answer["error"]) == (401, "invalid_client")
    status, _ = exchange(server, good, scope)
    assert status == 200


def test_a_subject_with_any_characters_names_its_session(
    server: aws.Server, issuer: issuers.Issuer
) -> None:
    subject = "repo:boat/house:ref:refs/heads/main " + "x" * 60
    role = role_of(server, issuer, subject=subject)
    status, answer = exchange(server, issuer.token(sub=subject), f"PRINCIPAL_ROLE:{role}")
    assert status == 200, answer
    assert status_of(server, answer["access_token"]) == 200
