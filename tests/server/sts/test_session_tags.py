"""Tags of roles' sessions, by boto3: who may pass them, what they decide, and who inherits them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from server.sts import errors, sessiontags
from tests.kit import aws, programs
from tests.server.sts import roles
from tests.server.sts.roles import DENIED, HERE, allow, assumed, document, may_read, refused

INVALID = (400, "ValidationError")
USERS = programs.users(
    {"carol": [], "dora": [document(allow("sts:AssumeRole"))], "erin": [document(allow("sts:*"))]}
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aws.Server]:
    folder = tmp_path_factory.mktemp("tags") / "data"
    with roles.serving(folder, USERS) as running:
        yield running


def tags(**values: str) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in values.items()]


def trust(
    *principals: str, actions: Any = ("sts:AssumeRole", "sts:TagSession"), **more: Any
) -> str:
    named = "*" if principals == ("*",) else {"AWS": list(principals)}
    statement = {"Effect": "Allow", "Principal": named, "Action": list(actions), **more}
    return json.dumps(document(statement))


def reading_of(team: str, *more: dict[str, Any]) -> str:
    """A policy by which the sessions of a team read."""
    condition = {"StringEquals": {"aws:PrincipalTag/team": team}}
    return json.dumps(document(allow("s3:GetObject", Condition=condition), *more))


def role_of(server: aws.Server, trusted: str, **members: Any) -> str:
    return roles.role_of(server, trusted, **{"policy": reading_of("red"), **members})


def test_a_sessions_tags_are_conditions_of_what_it_does(server: aws.Server) -> None:
    arn = role_of(server, trust("*"))
    carol = aws.keys_of("carol")
    assert may_read(server, assumed(server, carol, arn, Tags=tags(team="red")))
    assert not may_read(server, assumed(server, carol, arn, Tags=tags(team="blue")))
    assert not may_read(server, assumed(server, carol, arn))
    answer = server.client("sts", carol).assume_role(
        RoleArn=arn, RoleSessionName="night", Tags=tags(team="red")
    )
    assert 0 < answer["PackedPolicySize"] <= 100


def test_a_sessions_tag_replaces_the_roles_in_any_case_and_no_other(server: aws.Server) -> None:
    arn = role_of(server, trust("*"), Tags=tags(Team="red", use="night"))
    carol = aws.keys_of("carol")
    assert may_read(server, assumed(server, carol, arn))
    assert may_read(server, assumed(server, carol, arn, Tags=tags(use="day")))
    assert not may_read(server, assumed(server, carol, arn, Tags=tags(TEAM="blue")))


def test_the_tags_are_policy_variables(server: aws.Server) -> None:
    own = "arn:aws:s3:::docs/${aws:PrincipalTag/folder}"
    policy = json.dumps(document(allow("s3:GetObject", resource=own)))
    arn = role_of(server, trust("*"), policy=policy)
    session = assumed(server, aws.keys_of("carol"), arn, Tags=tags(folder="a"))
    assert may_read(server, session)
    assert not may_read(server, session, "b")


def test_tags_need_a_right_of_their_own(server: aws.Server) -> None:
    carol = aws.keys_of("carol")
    untagged = role_of(server, trust("*", actions=["sts:AssumeRole"]))
    assert refused(server, carol, untagged, Tags=tags(team="red")) == DENIED
    assumed(server, carol, untagged)
    only_tags = role_of(server, trust("*", actions=["sts:TagSession"]))
    assert refused(server, carol, only_tags, Tags=tags(team="red")) == DENIED
    # Where the account is trusted, the user's own policies have to allow it, too.
    of_account = role_of(server, trust(f"{HERE}:root"))
    assert refused(server, aws.keys_of("dora"), of_account, Tags=tags(team="red")) == DENIED
    assert may_read(server, assumed(server, aws.keys_of("erin"), of_account, Tags=tags(team="red")))


def test_the_tags_of_a_request_are_conditions_of_the_trust_policy(server: aws.Server) -> None:
    condition = {
        "StringLike": {"aws:RequestTag/team": ["red", "r*d"]},
        "ForAllValues:StringEquals": {
            "aws:TagKeys": ["team", "cost"],
            "sts:TransitiveTagKeys": ["cost"],
        },
    }
    arn = role_of(server, trust("*", Condition=condition))
    carol = aws.keys_of("carol")
    assert may_read(server, assumed(server, carol, arn, Tags=tags(team="red")))
    both = tags(team="red", cost="7")
    assert may_read(server, assumed(server, carol, arn, Tags=both, TransitiveTagKeys=["cost"]))
    assert refused(server, carol, arn, Tags=both, TransitiveTagKeys=["team"]) == DENIED
    assert refused(server, carol, arn, Tags=tags(team="blue")) == DENIED
    assert refused(server, carol, arn, Tags=tags(team="red", other="x")) == DENIED
    assert refused(server, carol, arn) == DENIED


def test_transitive_tags_go_on_from_role_to_role_and_cannot_be_changed(server: aws.Server) -> None:
    may_go_on = allow("sts:AssumeRole", "sts:TagSession")
    first, second, last = (
        role_of(server, trust("*"), policy=reading_of("red", may_go_on)) for _ in range(3)
    )
    both = tags(team="red", other="x")
    session = assumed(server, aws.keys_of("carol"), first, Tags=both, TransitiveTagKeys=["TEAM"])
    assert refused(server, session, second, Tags=tags(Team="blue")) == INVALID
    next_session = assumed(server, session, second, Tags=tags(other="y"))
    assert may_read(server, next_session)
    assert may_read(server, assumed(server, next_session, last))
    closed = role_of(server, trust("*", actions=["sts:AssumeRole"]))
    assert refused(server, next_session, closed) == DENIED  # it would inherit a tag
    passing = assumed(server, aws.keys_of("carol"), first, Tags=both)
    assert not may_read(server, assumed(server, passing, second))


def test_the_tags_hold_for_what_is_vended_to_a_session(server: aws.Server) -> None:
    """Keys for a table's files, which a session is given, decide as the session does."""
    condition = {"StringEquals": {"aws:PrincipalTag/team": "red"}}
    policy = json.dumps(document(allow("s3tables:*", Condition=condition)))
    arn = role_of(server, trust("*"), policy=policy)
    session = assumed(server, aws.keys_of("carol"), arn, Tags=tags(team="red"))
    path = "/iceberg/v1/lake/namespaces"
    assert aws.signed(server, session, "POST", path, {"namespace": ["tagged"]})[0] == 200
    schema = {"type": "struct", "fields": []}
    table = {"name": "t", "schema": schema}
    status, created = aws.signed(server, session, "POST", f"{path}/tagged/tables", table)
    assert status == 200, created
    status, answer = aws.signed(server, session, "GET", f"{path}/tagged/tables/t/credentials")
    config = answer["storage-credentials"][0]["config"]
    vended = aws.Keys(
        access_key=config["s3.access-key-id"],
        secret_key=config["s3.secret-access-key"],
        token=config["s3.session-token"],
    )
    key = created["metadata-location"].removeprefix("s3://lake/")
    assert server.client("s3", vended).get_object(Bucket="lake", Key=key)["Body"].read()
    other = assumed(server, aws.keys_of("carol"), arn, Tags=tags(team="blue"))
    assert aws.signed(server, other, "GET", f"{path}/tagged/tables/t")[0] == 403


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"Tags": [*tags(a="1"), *tags(A="2")]}, INVALID),
        ({"Tags": [{"Key": "aws:team", "Value": "red"}]}, INVALID),
        ({"Tags": [{"Key": "AWS:team", "Value": "red"}]}, INVALID),
        ({"TransitiveTagKeys": ["team"]}, INVALID),
        ({"Tags": tags(a="1"), "TransitiveTagKeys": ["b"]}, INVALID),
        ({"Tags": [{"Key": f"k{number}", "Value": ""} for number in range(51)]}, INVALID),
        ({"Tags": [{"Key": "k" * 129, "Value": ""}]}, INVALID),
        ({"Tags": [{"Key": "k", "Value": "v" * 257}]}, INVALID),
        (
            {"Tags": [{"Key": f"k{number}", "Value": "v" * 256} for number in range(50)]},
            (400, "PackedPolicyTooLarge"),
        ),
    ],
)
def test_tags_that_no_session_can_have_are_refused(
    server: aws.Server, members: dict[str, Any], expected: tuple[int, str]
) -> None:
    arn = role_of(server, trust("*"))
    assert refused(server, aws.keys_of("carol"), arn, **members) == expected


def test_fifty_tags_are_the_most_with_those_that_are_inherited() -> None:
    passed = {"Tags": [{"Key": f"k{number}", "Value": ""} for number in range(49)]}
    assert len(sessiontags.parse(passed, {"a": "1"}).claims["tag"]) == 50
    with pytest.raises(errors.InvalidParameter, match="at most 50 tags"):
        sessiontags.parse(passed, {"a": "1", "b": "2"})
