"""Logins at the SQL face."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server import limits
from server.access import errors as access_errors
from sql import errors
from sql.rest import login, wire

NOW_MS = 1_700_000_000_000


class Credentials:
    """Checks passwords by a list, one at a time, and counts the checks."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    async def check_password(self, user: str, password: str, *, client_ip: str = "") -> str:
        self.checked.append(password)
        for _ in range(3):
            await asyncio.sleep(0)
        if password != "right":
            raise access_errors.WrongPassword(user)
        return user


def request(password: str) -> wire.LoginRequest:
    return wire.LoginRequest(
        authenticator="SNOWFLAKE",
        login_name="Bob",
        password=password,
        token="",
        account_name="",
        client_app_id="",
        client_app_version="",
    )


def logins(credentials: Any) -> login.Logins:
    unused: Any = None
    return login.Logins(
        sessions=unused,
        credentials=credentials,
        contexts=unused,
        roles=unused,
        now_ms=lambda: NOW_MS,
    )


def test_equal_logins_at_once_are_checked_once() -> None:
    credentials = Credentials()

    async def work() -> list[Any]:
        opening = logins(credentials)
        tasks = [
            asyncio.create_task(opening._authenticated(request("right"), "192.0.2.1"))
            for _ in range(500)
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()  # a client that leaves takes no answer from the others
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(work())
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == ["Bob"] * 499
    assert credentials.checked == ["right"]


def test_equal_wrong_passwords_at_once_count_as_one_failure() -> None:
    credentials = Credentials()

    async def work() -> None:
        opening = logins(credentials)
        for number in range(limits.FAILURES_FREE - 1):
            wrong = [
                opening._authenticated(request(f"wrong{number}"), "192.0.2.1") for _ in range(50)
            ]
            outcomes = await asyncio.gather(*wrong, return_exceptions=True)
            assert {type(each) for each in outcomes} == {errors.SessionFault}
        assert await opening._authenticated(request("right"), "192.0.2.1") == "Bob"
        # Guesses at once are as many failures as they are, and lock the name at the address.
        guesses = [
            opening._authenticated(request(f"guess{number}"), "192.0.2.1") for number in range(9)
        ]
        await asyncio.gather(*guesses, return_exceptions=True)
        with pytest.raises(errors.SessionFault, match="too many wrong passwords"):
            await opening._authenticated(request("right"), "192.0.2.1")

    asyncio.run(work())
    assert len(credentials.checked) == (limits.FAILURES_FREE - 1) + 1 + limits.FAILURES_FREE
