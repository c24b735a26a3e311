"""Who there is, and by what they are found."""

from __future__ import annotations

import re

import pytest

from server import config
from server.access import canned, errors, principals, tokens
from tests.server import requesting

POLICY = {
    "Version": "2012-10-17",
    "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
}
BOB = config.User(
    name="Bob",
    access_key="AKBOB",
    secret_key="bob's secret",
    policies=(POLICY,),
    account="111111111111",
    canonical_id="b" * 64,
    display_name="Bob B.",
    email="bob@example.com",
    public_keys=("PEM",),
)


def test_root_is_known_by_its_key_and_by_its_name():
    people = requesting.people()
    root = people.by_access_key(requesting.ACCESS_KEY)
    assert root.principal is people.root
    assert root.secret_key == requesting.SECRET_KEY
    assert people.by_name("ROOT") is root
    assert people.root.type == "root"
    assert people.root.arn == "arn:aws:iam::000000000000:root"


def test_user_is_what_the_configuration_says():
    bob = requesting.people(BOB).by_access_key("AKBOB")
    who = bob.principal
    assert (who.type, who.name, who.arn) == ("user", "Bob", "arn:aws:iam::111111111111:user/Bob")
    assert (who.account_id, who.canonical_id) == ("111111111111", "b" * 64)
    assert (who.display_name, who.email) == ("Bob B.", "bob@example.com")
    assert len(who.policies) == 1
    assert bob.public_keys == ("PEM",)
    assert re.fullmatch("AIDA[A-Z2-7]{17}", who.principal_id)


def test_user_without_more_belongs_to_the_servers_account():
    people = requesting.people(requesting.ALICE)
    who = people.by_access_key("AKALICE").principal
    assert who.account_id == people.root.account_id
    assert who.canonical_id == people.root.canonical_id
    assert who.display_name == "alice"
    assert who.policies == ()


def test_canonical_ids_are_64_digits_and_differ_by_account():
    ids = {principals.canonical_id_of(account) for account in ("000000000000", "111111111111")}
    assert len(ids) == 2
    assert all(len(each) == 64 and int(each, 16) for each in ids)
    assert principals.canonical_id_of("000000000000") in ids


def test_an_unknown_name_has_no_principal():
    assert requesting.people(BOB).by_name("unknown") is None


def test_unknown_access_key_is_named():
    with pytest.raises(errors.NoSuchAccessKey) as caught:
        requesting.people().by_access_key("UNKNOWN")
    assert caught.value.fields == {"access_key": "UNKNOWN"}


@pytest.mark.parametrize("user", ["alice", "ALICE", "AKALICE"])
def test_password_is_the_secret_key_under_name_or_access_key(user):
    people = requesting.people(requesting.ALICE)
    assert people.check_password(user, "alice's secret", door="native").name == "alice"


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("alice", ""),
        ("alice", "Alice's secret"),
        ("alice", requesting.SECRET_KEY),
        ("unknown", "no such user"),
        ("akalice", "alice's secret"),
        ("", ""),
        ("alice", "\ud800"),
    ],
)
def test_wrong_user_and_wrong_password_look_alike(user, password):
    people = requesting.people(requesting.ALICE)
    with pytest.raises(errors.WrongPassword) as caught:
        people.check_password(user, password, door="native")
    assert str(caught.value) == "the user name or the password is wrong"


@pytest.mark.parametrize(
    "twin",
    [
        config.User(name="BOB", access_key="other", secret_key="x"),
        config.User(name="other", access_key="AKBOB", secret_key="x"),
        config.User(name="Root", access_key="other", secret_key="x"),
        config.User(name="other", access_key=requesting.ACCESS_KEY, secret_key="x"),
    ],
)
def test_two_principals_share_neither_name_nor_key(twin):
    with pytest.raises(principals.DuplicatePrincipal):
        requesting.people(BOB, twin)


@pytest.mark.parametrize("extra", [{}, {"key": "AKALICE"}])
def test_a_token_is_that_of_the_user_that_has_its_name_and_its_key(extra):
    """A later configuration may give the name another key, and the key to another user."""
    claims = tokens.Claims(
        typ="access", subject="alice", token_id="t", issued_at_ms=0, expires_at_ms=1, extra=extra
    )
    entry = requesting.people(requesting.ALICE).of_claims(claims)
    assert (entry.principal.name, entry.access_key) == ("alice", "AKALICE")
    assert requesting.people(BOB).of_claims(claims) is None
    other = config.User(name="other", access_key="AKALICE", secret_key="x")
    assert requesting.people(other).of_claims(claims) is None
    renewed = config.User(name="alice", access_key="AKNEW", secret_key="x")
    is_named_alone = "key" not in extra
    assert (requesting.people(renewed).of_claims(claims) is not None) == is_named_alone


def test_faulty_policy_is_refused_with_its_place_in_the_configuration():
    wrong = {"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "b"}}
    carol = config.User(name="carol", access_key="AKC", secret_key="x", policies=(POLICY, wrong))
    with pytest.raises(errors.MalformedPolicy) as caught:
        requesting.people(BOB, carol)
    assert caught.value.path == "users[1].policies[1].Statement.Resource"
    assert "carol" in str(caught.value)


def test_an_unknown_managed_policy_is_refused_with_its_place_and_those_that_there_are():
    carol = config.User(name="carol", access_key="AKC", secret_key="x", policies=("Nothing",))
    with pytest.raises(errors.MalformedPolicy, match=", ".join(sorted(canned.CANNED))) as caught:
        requesting.people(carol)
    assert caught.value.path == "users[0].policies[0]"
