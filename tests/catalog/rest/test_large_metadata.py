"""Metadata of megabytes, which must not keep other requests waiting."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from catalog import store
from catalog.metadata import model
from tests.catalog.rest import house as houses

WAIT_SECONDS = 20


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("operation", ["load", "commit", "register", "unregister"])
def test_others_are_answered_while_large_metadata_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, compressed: bool
) -> None:
    with houses.opened(tmp_path) as house:
        codec = {"write.metadata.compression-codec": "gzip"} if compressed else {}
        text = "".join(f"{number:x}." for number in range(store.SMALL_BYTES // 5))
        house.make_table("ns.t", properties={"large": text, **codec})
        location = house.load("ns.t").json["metadata-location"]
        if operation == "register":
            assert house.ask("POST", "namespaces/ns/tables/t/unregister").status == 200
    requests: dict[str, tuple[str, str, Any]] = {
        "load": ("GET", "namespaces/ns/tables/t", None),
        "commit": (
            "POST",
            "namespaces/ns/tables/t",
            {"requirements": [], "updates": [houses.set_property("a", "b")]},
        ),
        "register": (
            "POST",
            "namespaces/ns/register",
            {"name": "again", "metadata-location": location},
        ),
        "unregister": ("POST", "namespaces/ns/tables/t/unregister", None),
    }
    decode = model.decode
    begun, others_answered = threading.Event(), threading.Event()

    def decode_slowly(data: bytes) -> model.TableMetadata:
        begun.set()
        assert others_answered.wait(WAIT_SECONDS), "nobody was answered meanwhile"
        return decode(data)

    with houses.opened(tmp_path, first_id=1_000) as house:
        monkeypatch.setattr(model, "decode", decode_slowly)

        async def ask_both() -> tuple[houses.Answer, houses.Answer]:
            large = asyncio.create_task(house.asked(*requests[operation]))
            assert await asyncio.to_thread(begun.wait, WAIT_SECONDS)
            health = await house.sent("GET", "/_health")
            others_answered.set()
            return await large, health

        house.run(house.token("root"))
        large, health = house.run(ask_both())
    assert (health.status, large.status) == (200, 200)
    assert large.json["metadata"]["properties"]["large"] == text


def test_readers_of_the_same_large_metadata_wait_for_one_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with houses.opened(tmp_path) as house:
        text = "x" * store.SMALL_BYTES
        house.make_table("ns.t", properties={"large": text})
    decode = model.decode
    decoded = []

    def count(data: bytes) -> model.TableMetadata:
        decoded.append(len(data))
        return decode(data)

    with houses.opened(tmp_path, first_id=1_000) as house:
        monkeypatch.setattr(model, "decode", count)

        async def ask_all() -> list[houses.Answer]:
            asked = (house.asked("GET", "namespaces/ns/tables/t", None) for _ in range(8))
            return await asyncio.gather(*asked)

        house.run(house.token("root"))
        answers = house.run(ask_all())
    assert [answer.status for answer in answers] == [200] * 8
    assert len(decoded) <= store.LARGE_READS_MAX


def test_a_commit_to_metadata_beyond_the_bound_is_refused_unless_it_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with houses.opened(tmp_path) as house:
        house.make_table("ns.t", properties={"a": "x" * 3_000, "b": "x" * 3_000})
        before = house.load("ns.t").json
        monkeypatch.setattr(store, "NEW_METADATA_BYTES_MAX", 2_000)
        grown = house.commit("ns.t", houses.set_property("c", "y"))
        assert grown.status == 400
        assert "more than 2000: expire snapshots" in grown.json["error"]["message"]
        assert house.load("ns.t").json["metadata"] == before["metadata"]
        shrunk = house.commit("ns.t", {"action": "remove-properties", "removals": ["a"]})
        assert shrunk.status == 200
        assert len(shrunk.body) < len(grown.body) + 6_000


@pytest.mark.parametrize("compressed", [False, True])
def test_metadata_beyond_the_bound_is_not_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    with houses.opened(tmp_path) as house:
        codec = {"write.metadata.compression-codec": "gzip"} if compressed else {}
        house.make_table("ns.t", properties={"a": "x" * 30_000, **codec})
        location = house.load("ns.t").json["metadata-location"]
        assert house.ask("POST", "namespaces/ns/tables/t/unregister").status == 200
        monkeypatch.setattr(store, "NEW_METADATA_BYTES_MAX", 20_000)
        request = {"name": "t", "metadata-location": location}
        assert house.ask("POST", "namespaces/ns/register", request).status == 400
        monkeypatch.setattr(store, "NEW_METADATA_BYTES_MAX", 40_000)
        assert house.ask("POST", "namespaces/ns/register", request).status == 200
