"""Hostile statements and requests to the SQL face, for `tests.campaign`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.kit import stalls

TIMEOUT_SECONDS: Final = 120
MIB: Final = stalls.MIB
GROWTH_MIB: Final = 96
"""How much the serving process may grow for one statement: its text a few times over, and the SQL
floor itself, which is joined at the first request."""


class Connection:
    """A session by hand. The drivers would retry, and hold large texts several times."""

    def __init__(self, place: stalls.Target) -> None:
        self._url = place.url
        self._token = "None"
        login = {
            "LOGIN_NAME": place.access_key,
            "PASSWORD": place.secret_key,
            "ACCOUNT_NAME": "a",
            "CLIENT_APP_ID": "PythonConnector",
        }
        answer = self.post("/session/v1/login-request", {"data": login})
        assert answer["success"], answer
        self._token = answer["data"]["token"]

    def post(self, path: str, body: Mapping[str, Any] | bytes) -> Any:
        """Send a body; return the answer's."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {
            "Content-Type": "application/json",
            "Authorization": f'Snowflake Token="{self._token}"',
        }
        request = urllib.request.Request(self._url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def run(self, text: str, **more: Any) -> Any:
        """Run a text; return the answer, waited for."""
        path = f"/queries/v1/query-request?requestId={uuid.uuid4()}"
        answer = self.post(path, {"sqlText": text, **more})
        while answer["code"] in ("333333", "333334"):
            path = answer["data"]["getResultUrl"]
            headers = {"Authorization": f'Snowflake Token="{self._token}"'}
            request = urllib.request.Request(self._url + path, headers=headers)
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                answer = json.load(response)
        return answer


def doubling(levels: int) -> str:
    """Common table expressions of which each names the one before twice."""
    parts = ["c0 as (select 1 a)"]
    parts += [f"c{n} as (select x.a from c{n - 1} x, c{n - 1} y)" for n in range(1, levels)]
    return f"with {', '.join(parts)} select count(*) from c{levels - 1}"


def statement(
    name: str,
    principal: str,
    text: str | Callable[[], str],
    codes: Sequence[str | None],
    *,
    growth_mib: int = GROWTH_MIB,
    prepare: Callable[[stalls.Target], Any] | None = None,
    **more: Any,
) -> stalls.Hostile:
    """A row that runs one text and expects one of codes; None means that it succeeds."""

    def send(place: stalls.Target) -> None:
        answer = Connection(place).run(text if isinstance(text, str) else text(), **more)
        assert answer["code"] in codes, str(answer)[:600]
        if answer["code"] not in (None, "090001"):
            assert "internal error" not in answer["message"], answer["message"][:300]

    return stalls.Hostile(
        name=name, principal=principal, growth_mib=growth_mib, send=send, prepare=prepare
    )


def joined(item: str, count: int, separator: str = ",") -> str:
    return separator.join(item.format(n) for n in range(count))


def run_many_large_texts(place: stalls.Target) -> None:
    connection = Connection(place)
    for number in range(450):
        text = f"select {number} -- {'x' * 1_000_000}"
        assert connection.run(text)["success"]


def bind_sixteen_mebibytes(place: stalls.Target) -> None:
    connection = Connection(place)
    value = [str(number) for number in range(1_700_000)]
    body = {"sqlText": "select ?", "bindings": {"1": {"type": "FIXED", "value": value}}}
    data = json.dumps(body, separators=(",", ":")).encode()
    assert 15 * MIB < len(data) < 16 * MIB
    answer = connection.post(f"/queries/v1/query-request?requestId={uuid.uuid4()}", data)
    assert answer["success"], str(answer)[:600]
    answer = connection.post(
        f"/queries/v1/query-request?requestId={uuid.uuid4()}", data + b" " * MIB
    )
    assert not answer["success"]


ROWS: Final = (
    statement("doubling-ctes-14-deep", "carol", doubling(15), ["000625"]),
    statement("doubling-ctes-24-deep", stalls.ROOT, doubling(25), ["000625"]),
    statement("a-quarter-of-a-million-statements", "carol", "1;" * 250_000, ["000625"]),
    statement(
        "an-in-list-of-100000", "carol", f"select 1 in ({joined('{}', 100_000)})", ["001795"]
    ),
    statement(
        "300-ctes",
        "carol",
        f"with {joined('c{} as (select {} a)'.replace('{}', '{0}'), 300)} select a from c7",
        [None],
    ),
    statement("5000-columns", "carol", f"select {joined('1', 5_000)}", [None]),
    statement(
        "ten-thousand-statements-of-constants",
        "carol",
        "select 1;" * 10_000,
        [None],
        parameters={"MULTI_STATEMENT_COUNT": 0},
    ),
    statement("nested-parentheses", "carol", f"select {'(' * 500_000}", ["000625", "000002"]),
    statement("a-sum-of-100000", "carol", f"select {joined('1', 100_000, '+')}", ["000002"]),
    statement(
        "columns-that-double",
        "carol",
        "with c0 as (select 1 a), "
        + ", ".join(f"c{n} as (select x.*, x.* from c{n - 1} x)" for n in range(1, 30))
        + " select * from c29",
        ["000625"],
    ),
    stalls.Hostile(
        name="450-texts-of-a-megabyte",
        principal="carol",
        growth_mib=GROWTH_MIB,
        send=run_many_large_texts,
    ),
    stalls.Hostile(
        name="sixteen-mebibytes-of-binds",
        principal="carol",
        growth_mib=512,
        send=bind_sixteen_mebibytes,
    ),
)
