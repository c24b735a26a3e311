"""Proofs of identity, as the SQL face asks for them."""

from __future__ import annotations

import asyncio

import pytest

from server import config
from server.access import errors, passwords, principals, rootkeys, tokens
from sql import authentication

NOW_MS = 1_700_000_000_000
RING = tokens.KeyRing(keys=(tokens.SigningKey(key_id="k", secret=b"k" * 32),), master=b"m" * 32)
ALICE = config.User(
    name="Alice", access_key="AKALICE", secret_key="alice-secret", public_keys=("PEM",)
)


def authenticator(*, open_to_all: bool = False) -> authentication.Authenticator:
    root = rootkeys.RootKeys(access_key="AKROOT", secret_key="root-secret", created=False)
    people = principals.Principals(account="0" * 12, root=root, users=[ALICE])
    return authentication.Authenticator(
        principals=people, ring=RING, now_ms=lambda: NOW_MS, open_to_all=open_to_all
    )


def token(subject: str = "Alice", typ: tokens.TokenType = "access") -> str:
    return tokens.issue(
        RING, typ=typ, subject=subject, token_id="t", now_ms=NOW_MS, lifetime_seconds=60
    )


def test_a_password_is_the_secret_key_by_name_or_access_key() -> None:
    assert asyncio.run(authenticator().check_password("ALICE", "alice-secret")).name == "Alice"
    assert asyncio.run(authenticator().check_password("AKALICE", "alice-secret")).name == "Alice"
    assert asyncio.run(authenticator().check_password("AKROOT", "root-secret")).type == "root"
    for user, password in (("alice", "x"), ("unknown", "alice-secret"), ("", ""), ("alice", "")):
        with pytest.raises(errors.WrongPassword):
            asyncio.run(authenticator().check_password(user, password))


def test_only_access_tokens_of_people_who_exist_are_taken() -> None:
    assert authenticator().check_token(token()).name == "Alice"
    for wrong in (token("unknown"), token(typ="sf"), token(typ="sf-master"), "garbage", ""):
        with pytest.raises(errors.InvalidJWT):
            authenticator().check_token(wrong)


def test_keys_are_found_in_any_letter_case() -> None:
    assert authenticator().keys_of("ALICE") == ("Alice", ("PEM",))
    assert authenticator().keys_of("unknown") == ("unknown", ())


def test_a_principal_comes_with_the_connections_context() -> None:
    principal = authenticator().principal_of("alice", {"aws:sourceip": "192.0.2.1"})
    assert principal is not None
    assert (principal.name, principal.context) == ("Alice", {"aws:sourceip": "192.0.2.1"})
    assert authenticator().principal_of("unknown", {}) is None


def test_open_to_all_makes_every_client_root() -> None:
    assert (
        asyncio.run(authenticator(open_to_all=True).check_password("anyone", "anything")).type
        == "root"
    )
    assert authenticator(open_to_all=True).check_token("anything").type == "root"


def test_logins_beyond_those_that_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "verify", lambda hashed, password: False)

    async def work() -> list[str]:
        checks = authenticator()
        attempts = [
            checks.check_password(f"user{number}", "wrong", client_ip=f"192.0.2.{number % 7}")
            for number in range(70)
        ]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        return [type(each).__name__ for each in outcomes]

    names = asyncio.run(work())
    assert (names.count("WrongPassword"), names.count("SessionFault")) == (64, 6)


@pytest.mark.parametrize(("flood", "room"), [("name", 16), ("address", 32)])
def test_a_flood_of_one_name_or_address_leaves_room_for_others(
    monkeypatch: pytest.MonkeyPatch, flood: str, room: int
) -> None:
    monkeypatch.setattr(passwords, "verify", lambda hashed, password: False)

    async def work() -> tuple[list[str], str, str]:
        checks = authenticator()
        attempts = [
            checks.check_password(
                "alice" if flood == "name" else f"user{number}",
                f"wrong{number}",
                client_ip=f"192.0.2.{number}" if flood == "name" else "192.0.2.1",
            )
            for number in range(70)
        ]
        other = checks.check_password("bob", "wrong", client_ip="198.51.100.1")
        *outcomes, last = await asyncio.gather(*attempts, other, return_exceptions=True)
        with pytest.raises(errors.WrongPassword) as again:  # nothing stays counted
            await checks.check_password("alice", "wrong", client_ip="192.0.2.1")
        names = [type(each).__name__ for each in outcomes]
        return names, type(last).__name__, type(again.value).__name__

    names, other, again = asyncio.run(work())
    assert (names.count("WrongPassword"), names.count("SessionFault")) == (room, 70 - room)
    assert other == again == "WrongPassword"
