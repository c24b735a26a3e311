"""The credentials of the scheduler's child: whose rights they have, and when they end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from jobs import credentials, errors
from server.access import decide, model, principals, tokens
from server.auth import callers, verify
from server.auth import errors as auth_errors
from tests.kit import lakes
from tests.server import requesting

TABLE = "arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/x"


class Issuing:
    """Credentials of jobs, and the verifier that meets them."""

    def __init__(self) -> None:
        self.clock = requesting.Clock()
        self.people = requesting.people(requesting.ALICE)
        self.credentials = credentials.JobCredentials(
            principals=self.people, ring=requesting.RING, now_ms=self.clock, new_id=lakes.ids()
        )
        self.verifier = verify.Verifier(
            principals=self.people, ring=requesting.RING, now_ms=self.clock
        )

    def caller(self, variables: Mapping[str, str]) -> callers.Caller:
        """Return the caller of a request with the token of a child."""
        request = requesting.request(
            headers=[("authorization", f"Bearer {variables['BOATHOUSE_TOKEN']}")]
        )
        return requesting.run(self.verifier.verify(request, "iceberg"))


def test_a_token_holds_while_its_child_lives_and_no_longer() -> None:
    issuing = Issuing()
    job_id, variables = issuing.credentials.issue(issuing.credentials.owner("alice"))
    caller = issuing.caller(variables)
    assert caller.principal.name == "alice"
    # No shorter path of a repeated request outlives the child.
    request = requesting.request(
        headers=[("authorization", f"Bearer {variables['BOATHOUSE_TOKEN']}")]
    )
    assert issuing.verifier.standing(request, caller) is None
    # What is derived from the token ends with it.
    derived = principals.claims_of(caller.principal)
    assert derived[principals.JOB_CLAIM] == job_id
    issuing.credentials.revoke(job_id)
    with pytest.raises(auth_errors.InvalidToken):
        issuing.caller(variables)
    claims = tokens.Claims(
        typ="sts", subject="alice", token_id="t", issued_at_ms=0, expires_at_ms=1, extra=derived
    )
    assert issuing.people.of_claims(claims) is None


@pytest.mark.parametrize("change", ["another user", "disabled", "removed"])
def test_a_token_ends_with_its_user_though_another_one_has_the_name_now(change: str) -> None:
    issuing = Issuing()
    _, variables = issuing.credentials.issue(issuing.credentials.owner("alice"))
    assert issuing.caller(variables).principal.name == "alice"
    entry = issuing.people._by_name.pop("alice")
    if change == "another user":
        other = dataclasses.replace(entry.principal, principal_id="AIDAOTHER")
        entry = dataclasses.replace(entry, principal=other)
    if change != "removed":
        is_disabled = change == "disabled"
        issuing.people._by_name["alice"] = dataclasses.replace(entry, is_disabled=is_disabled)
    with pytest.raises(auth_errors.InvalidToken):
        issuing.caller(variables)


def test_a_token_ends_by_itself_after_half_a_day() -> None:
    issuing = Issuing()
    _, variables = issuing.credentials.issue(issuing.credentials.owner(None))
    assert issuing.caller(variables).principal.type == "root"
    issuing.clock.now_ms += credentials.LIFETIME_SECONDS * 1000
    with pytest.raises(auth_errors.ExpiredToken):
        issuing.caller(variables)


def test_maintenance_reads_tables_and_commits_to_them_and_may_nothing_else() -> None:
    issuing = Issuing()
    _, variables = issuing.credentials.issue(issuing.credentials.maintenance(lakes.ACCOUNT))
    principal = issuing.caller(variables).principal
    authoriser = decide.Authoriser(now_ms=issuing.clock)

    def may(action: str, resource: str = TABLE) -> bool:
        return authoriser.permits(principal, model.Demand(action=action, resource=resource))

    assert may("s3tables:GetTableData")
    assert may("s3tables:PutTableData")
    assert may("s3tables:UpdateTableMetadataLocation")
    for action in ("s3tables:DeleteTable", "s3tables:CreateTable", "s3tables:PutTablePolicy",
                   "lake:Admin", "lake:RunMaintenance", "iam:CreateUser"):  # fmt: skip
        assert not may(action), action
    assert not may("s3:GetObject", "arn:aws:s3:::raw/key")


def test_a_user_that_does_not_exist_owns_nothing() -> None:
    with pytest.raises(errors.BadSchedule, match="there is no such user"):
        Issuing().credentials.owner("bo")
