"""Requests with an idempotency key: done once, answered as often as they come."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from catalog.rest import idempotency
from server import errors as server_errors
from server.access import model
from tests.catalog.rest import rest_server as kit
from tests.kit import lakes

KEY = "018f2c5e-7b1a-7000-8000-0123456789ab"
OTHER = "018f2c5e-7b1a-7000-8000-0123456789ac"


def commits(rest: kit.RestServer) -> int:
    return len(rest.lake.log())


def test_a_commit_sent_twice_is_done_once(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    before = commits(rest)
    first = rest.commit("ns.t", *kit.add_snapshot(1, 1), idempotency_key=KEY)
    again = rest.commit("ns.t", *kit.add_snapshot(1, 1), idempotency_key=KEY)
    assert first.status == again.status == 200
    assert again.json == first.json
    assert commits(rest) == before + 1


def test_a_repeated_request_gets_its_own_result_whatever_came_since(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    first = rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY)
    rest.commit("ns.t", kit.set_property("a", "2"))
    assert rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY).json == (first.json)
    rest.ask("DELETE", "namespaces/ns/tables/t")
    after_drop = rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY)
    assert after_drop.json == first.json
    assert rest.load("ns.t").status == 404


def test_a_final_refusal_is_repeated_too(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    wrong = [{"type": "assert-create"}]
    first = rest.commit("ns.t", requirements=wrong, idempotency_key=KEY)
    assert first.error[0] == 409
    rest.ask("DELETE", "namespaces/ns/tables/t")
    assert rest.commit("ns.t", requirements=wrong, idempotency_key=KEY).error == first.error


def test_a_key_is_not_used_for_another_request(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    rest.make_table("ns.u")
    rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY)
    for answer in (
        rest.commit("ns.t", kit.set_property("a", "2"), idempotency_key=KEY),
        rest.commit("ns.u", kit.set_property("a", "1"), idempotency_key=KEY),
        rest.ask("DELETE", "namespaces/ns/tables/t", idempotency_key=KEY),
    ):
        assert answer.error[:2] == (400, "BadRequestException")
    assert rest.load("ns.t").json["metadata"]["properties"]["a"] == "1"
    assert "a" not in rest.load("ns.u").json["metadata"]["properties"]


@pytest.mark.parametrize("key", ["x", "", "018f2c5e7b1a700080000123456789ab", "é" * 36])
def test_a_key_is_a_uuid(rest: kit.RestServer, key: str) -> None:
    rest.make_table("ns.t")
    before = commits(rest)
    answer = rest.run(
        rest.exchange(
            "POST",
            "namespaces/ns/tables/t",
            {"requirements": [], "updates": [kit.set_property("a", "1")]},
            idempotency_key=key,
        )
    )
    assert answer.error[0] == 400
    assert commits(rest) == before


def test_every_changing_operation_is_done_once(rest: kit.RestServer) -> None:
    rest.make_namespace("ns")
    uuids = iter(f"018f2c5e-7b1a-7000-8000-{number:012d}" for number in range(100))

    def twice(method: str, path: str, body: Any = None) -> None:
        key = next(uuids)
        first = rest.ask(method, path, body, idempotency_key=key)
        before = commits(rest)
        again = rest.ask(method, path, body, idempotency_key=key)
        assert first.status in (200, 204), first.body
        assert (again.status, again.body) == (first.status, first.body)
        assert commits(rest) == before

    twice("POST", "namespaces", {"namespace": ["n"], "properties": {"a": "b"}})
    twice("POST", "namespaces/n/properties", {"updates": {"c": "d"}, "removals": ["x"]})
    twice("DELETE", "namespaces/n")
    twice("POST", "namespaces/ns/tables", {"name": "t", "schema": kit.SCHEMA})
    twice(
        "POST",
        "namespaces/ns/tables",
        {"name": "s", "schema": kit.SCHEMA, "stage-create": True},
    )
    change = {
        "identifier": {"namespace": ["ns"], "name": "t"},
        "requirements": [],
        "updates": [kit.set_property("a", "1")],
    }
    twice("POST", "transactions/commit", {"table-changes": [change]})
    ident = {"namespace": ["ns"], "name": "t"}
    twice(
        "POST",
        "tables/rename",
        {"source": ident, "destination": {"namespace": ["ns"], "name": "u"}},
    )
    location = rest.load("ns.u").json["metadata-location"]
    twice("POST", "namespaces/ns/tables/u/unregister")
    twice("POST", "namespaces/ns/register", {"name": "v", "metadata-location": location})
    twice("DELETE", "namespaces/ns/tables/v?purgeRequested=true")


def test_a_commit_that_changes_nothing_is_remembered_as_well(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    first = rest.commit("ns.t", idempotency_key=KEY)
    rest.commit("ns.t", kit.set_property("a", "1"))
    assert rest.commit("ns.t", idempotency_key=KEY).json == first.json


def test_two_at_once_are_one(rest: kit.RestServer) -> None:
    rest.make_table("ns.t")
    before = commits(rest)

    async def both() -> list[kit.Answer]:
        body = {"requirements": [], "updates": kit.add_snapshot(1, 1)}
        return list(
            await asyncio.gather(
                *(
                    rest.exchange("POST", "namespaces/ns/tables/t", body, idempotency_key=KEY)
                    for _ in range(5)
                )
            )
        )

    answers = rest.run(both())
    assert {answer.status for answer in answers} == {200}
    assert len({json.dumps(answer.json) for answer in answers}) == 1
    assert commits(rest) == before + 1


def test_a_servers_fault_is_not_remembered(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.make_table("ns.t")

    async def broken(_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(rest.lake.storage.index, "commit", broken)
        failed = rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY)
        assert failed.status == 500
    assert rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY).status == 200


def test_a_refusal_for_lack_of_rights_is_not_remembered(tmp_path: Path) -> None:
    with kit.opened(tmp_path / "d", users={"alice": []}) as rest:
        rest.make_table("ns.t")
        body = {"requirements": [], "updates": []}
        for _ in range(2):
            answer = rest.ask(
                "POST", "namespaces/ns/tables/t", body, user="alice", idempotency_key=KEY
            )
            assert answer.status == 403
        assert rest.ask("POST", "namespaces/ns/tables/t", body, idempotency_key=KEY).status == 200


def test_a_key_outlives_a_restart_and_ends_after_its_lifetime(tmp_path: Path) -> None:
    with kit.opened(tmp_path / "d") as rest:
        rest.make_table("ns.t")
        first = rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY)
        clock = rest.lake.clock
    with kit.opened(tmp_path / "d", clock=clock, first_id=5_000) as rest:
        again = rest.commit("ns.t", kit.set_property("a", "1"), idempotency_key=KEY)
        assert again.json == first.json
        clock.now_ms += 36 * 60 * 1000
        later = rest.commit("ns.t", kit.set_property("a", "2"), idempotency_key=KEY)
        assert later.status == 200
        assert later.json["metadata"]["properties"]["a"] == "2"


def test_sessions_of_one_name_have_keys_of_their_own_for_each_user_who_assumed_the_role() -> None:
    def session_of(user: str, token_id: str) -> model.Principal:
        return dataclasses.replace(
            lakes.ROOT,
            type="assumed-role",
            arn="arn:aws:sts::000000000000:assumed-role/etl/night",
            role_arn="arn:aws:iam::000000000000:role/etl",
            session=model.CredentialSession(
                subject=user, token_id=token_id, issued_at_ms=0, expires_at_ms=1, claims={}
            ),
        )

    alice, again = session_of("alice", "1"), session_of("alice", "2")
    assert idempotency.owner_of(alice) == idempotency.owner_of(again)
    assert idempotency.owner_of(alice) != idempotency.owner_of(session_of("bob", "1"))
    assert idempotency.owner_of(lakes.ROOT) == lakes.ROOT.arn


def test_a_refusal_for_lack_of_memory_is_not_remembered(
    rest: kit.RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.make_table("ns.t")
    change = kit.set_property("a", "b")
    with monkeypatch.context() as patch:

        async def refuse(*_: Any, **__: Any) -> None:
            raise server_errors.ServerBusy("later")

        patch.setattr(rest.lake.store, "write", refuse)
        first = rest.commit("ns.t", change, idempotency_key=KEY)
    assert (first.status, first.headers["retry-after"]) == (429, "1")
    assert rest.commit("ns.t", change, idempotency_key=KEY).status == 200
    assert rest.load("ns.t").json["metadata"]["properties"]["a"] == "b"
