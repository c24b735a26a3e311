"""The condition keys that a policy may name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.access import actions, conditionkeys, errors, policies

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "key",
    ["s3tables:namespace", "S3Tables:TableName", "s3tables:TableBucketTag/team", "lake:branch",
     "s3:prefix", "s3:ExistingObjectTag/a/b", "aws:SourceIp", "AWS:username",
     "aws:PrincipalTag/Team", "sts:ExternalId", "iam:PolicyARN"],
)  # fmt: skip
def test_keys_of_aws_and_our_own_are_taken(key: str) -> None:
    policies.parse_policy(_policy(condition={"StringEquals": {key: "x"}}), policy_type="identity")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("s3tables:namespaces", "did you mean s3tables:namespace?"),
        ("s3tables:table-name", "did you mean s3tables:tableName?"),
        ("s3tables:prefix", "s3tables has no condition key 'prefix'"),
        ("aws:SourceIPs", "did you mean aws:SourceIp?"),
        ("aws:user", "aws has no condition key 'user'"),
        ("aws:PrincipalTag", "aws has no condition key 'PrincipalTag'"),
        ("aws:PrincipalTag/", "aws has no condition key 'PrincipalTag/'"),
        ("aws:SourceIp/x", "aws has no condition key 'SourceIp/x'"),
        ("s3:prefixes", "did you mean s3:prefix?"),
        ("lake:branches", "did you mean lake:branch?"),
        ("sts:ExternalIds", "did you mean sts:ExternalId?"),
        ("iam:Policy", "did you mean iam:PolicyARN?"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_one_that_was_probably_meant(
    key: str, hint: str
) -> None:
    """A Deny on a key that no request has would never bind."""
    for operator in ("StringEquals", "StringNotEquals", "ForAllValues:StringLike"):
        with pytest.raises(errors.MalformedPolicy) as refused:
            policies.parse_policy(_policy(condition={operator: {key: "x"}}), policy_type="identity")
        assert f"Statement[0].Condition.{operator}.{key}" in str(refused.value)
        assert hint in str(refused.value)


@pytest.mark.parametrize(("scheme", "is_secure"), [("https", "true"), ("http", "false")])
def test_a_connection_has_its_address_and_whether_it_is_encrypted(
    scheme: str, is_secure: str
) -> None:
    keys = conditionkeys.of_connection("10.0.0.7", scheme)
    assert keys == {"aws:SourceIp": "10.0.0.7", "aws:SecureTransport": is_secure}


@pytest.mark.parametrize("variable", ["aws:usernam", "username", "", "s3tables:namespaces", "x:y"])
def test_a_misspelt_variable_is_refused(variable: str) -> None:
    text = f"arn:aws:s3:::home/${{{variable}}}/*"
    with pytest.raises(errors.MalformedPolicy, match=r"Statement\[0\]\.Resource"):
        policies.parse_policy(_policy(resource=text), policy_type="identity")
    for operator in ("StringLike", "ArnLike"):
        with pytest.raises(errors.MalformedPolicy, match=r"Statement\[0\]\.Condition"):
            policies.parse_policy(
                _policy(condition={operator: {"aws:PrincipalArn": text}}), policy_type="identity"
            )


def test_a_variable_with_a_default_or_an_escape_is_taken() -> None:
    for text in ("${aws:username, 'guest'}", "${*}${?}${$}", "${aws:PrincipalTag/team}"):
        policies.parse_policy(_policy(resource=f"arn:aws:s3:::b/{text}"), policy_type="identity")


def test_every_key_that_a_request_has_can_be_named() -> None:
    sources = [
        path.read_text()
        for floor in ("server", "catalog", "s3tables", "sql")
        for path in (ROOT / floor).rglob("*.py")
        if path.name not in ("actions.py", "conditionkeys.py")
    ]
    named = {
        (service, name)
        for source in sources
        for service, name in re.findall(r'"(aws|s3|s3tables|lake):([A-Za-z-]+)"', source)
        if name not in actions.ACTIONS.get(service, ())
    }
    named.remove(("aws", "kms"))  # an encryption, which is refused
    assert {("s3tables", "namespace"), ("aws", "SourceIp"), ("lake", "branch")} <= named
    assert [each for each in sorted(named) if conditionkeys.suggest(*each)] == []


def _policy(
    *, condition: dict[str, dict[str, str]] | None = None, resource: str = "*"
) -> dict[str, object]:
    statement = {"Effect": "Deny", "Action": "*", "Resource": resource}
    if condition is not None:
        statement["Condition"] = condition
    return {"Version": "2012-10-17", "Statement": [statement]}
