"""Metadata of megabytes, which must not keep other requests waiting."""

from __future__ import annotations

import asyncio
import gzip
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from catalog import decoding, store
from catalog.metadata import contents, model
from storage import model as storage_model
from tests.catalog.rest import rest_server as kit
from tests.kit.waits import WAIT_SECONDS


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("operation", ["load", "commit", "register", "unregister"])
def test_others_are_answered_while_large_metadata_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, compressed: bool
) -> None:
    with kit.opened(tmp_path) as rest:
        codec = {"write.metadata.compression-codec": "gzip"} if compressed else {}
        text = "".join(f"{number:x}." for number in range(store.SMALL_BYTES // 5))
        rest.make_table("ns.t", properties={"large": text, **codec})
        location = rest.load("ns.t").json["metadata-location"]
        if operation == "register":
            assert rest.ask("POST", "namespaces/ns/tables/t/unregister").status == 200
    requests: dict[str, tuple[str, str, Any]] = {
        "load": ("GET", "namespaces/ns/tables/t", None),
        "commit": (
            "POST",
            "namespaces/ns/tables/t",
            {"requirements": [], "updates": [kit.set_property("a", "b")]},
        ),
        "register": (
            "POST",
            "namespaces/ns/register",
            {"name": "again", "metadata-location": location},
        ),
        "unregister": ("POST", "namespaces/ns/tables/t/unregister", None),
    }
    assemble = contents.assemble
    begun, others_answered = threading.Event(), threading.Event()

    def assemble_slowly(data: bytes, where: contents.Contents) -> model.TableMetadata:
        begun.set()
        assert others_answered.wait(WAIT_SECONDS), "no other request was answered meanwhile"
        return assemble(data, where)

    with kit.opened(tmp_path, first_id=1_000) as rest:
        monkeypatch.setattr(contents, "assemble", assemble_slowly)

        async def ask_both() -> tuple[kit.Answer, kit.Answer]:
            large = asyncio.create_task(rest.exchange(*requests[operation]))
            assert await asyncio.to_thread(begun.wait, WAIT_SECONDS)
            health = await rest.sent("GET", "/_health")
            others_answered.set()
            return await large, health

        rest.run(rest.token("root"))
        large, health = rest.run(ask_both())
    assert (health.status, large.status) == (200, 200)
    assert large.json["metadata"]["properties"]["large"] == text


def test_readers_of_the_same_large_metadata_wait_for_one_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kit.opened(tmp_path) as rest:
        text = "x" * store.SMALL_BYTES
        rest.make_table("ns.t", properties={"large": text})
    assemble = contents.assemble
    decoded = []

    def count(data: bytes, where: contents.Contents) -> model.TableMetadata:
        decoded.append(len(data))
        return assemble(data, where)

    with kit.opened(tmp_path, first_id=1_000) as rest:
        monkeypatch.setattr(contents, "assemble", count)

        async def ask_all() -> list[kit.Answer]:
            requests_at_once = (
                rest.exchange("GET", "namespaces/ns/tables/t", None) for _ in range(8)
            )
            return await asyncio.gather(*requests_at_once)

        rest.run(rest.token("root"))
        answers = rest.run(ask_all())
    assert [answer.status for answer in answers] == [200] * 8
    assert 1 <= len(decoded) <= store.LARGE_READS_MAX


def test_a_commit_to_metadata_beyond_the_bound_is_refused_unless_it_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kit.opened(tmp_path) as rest:
        rest.make_table("ns.t", properties={"a": "x" * 3_000, "b": "x" * 3_000})
        before = rest.load("ns.t").json
        monkeypatch.setattr(store, "NEW_METADATA_BYTES_MAX", 2_000)
        grown = rest.commit("ns.t", kit.set_property("c", "y"))
        assert grown.status == 400
        assert "more than 2000: expire snapshots" in grown.json["error"]["message"]
        assert rest.load("ns.t").json["metadata"] == before["metadata"]
        shrunk = rest.commit("ns.t", {"action": "remove-properties", "removals": ["a"]})
        assert shrunk.status == 200
        assert len(shrunk.body) < len(grown.body) + 6_000


@pytest.mark.parametrize("compressed", [False, True])
def test_metadata_beyond_the_bound_is_not_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    with kit.opened(tmp_path) as rest:
        codec = {"write.metadata.compression-codec": "gzip"} if compressed else {}
        rest.make_table("ns.t", properties={"a": "x" * 30_000, **codec})
        location = rest.load("ns.t").json["metadata-location"]
        assert rest.ask("POST", "namespaces/ns/tables/t/unregister").status == 200
        monkeypatch.setattr(store, "NEW_METADATA_BYTES_MAX", 20_000)
        request = {"name": "t", "metadata-location": location}
        assert rest.ask("POST", "namespaces/ns/register", request).status == 400
        monkeypatch.setattr(store, "NEW_METADATA_BYTES_MAX", 40_000)
        assert rest.ask("POST", "namespaces/ns/register", request).status == 200


def test_metadata_above_what_is_read_is_refused_by_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kit.opened(tmp_path) as rest:
        text = "".join(f"{number:x}." for number in range(store.SMALL_BYTES // 5))
        rest.make_table("ns.t", properties={"large": text})
    with kit.opened(tmp_path, first_id=1_000) as rest:
        monkeypatch.setattr(store, "METADATA_BYTES_MAX", store.SMALL_BYTES)
        answer = rest.load("ns.t")
        assert answer.status == 400
        assert f"larger than {store.SMALL_BYTES} bytes" in answer.json["error"]["message"]


def put(rest: kit.RestServer, location: str, data: bytes) -> None:
    """Put an object where a client could."""

    async def store_and_name() -> None:
        received = await rest.lake.storage.blobs.store(data, digests=frozenset({"md5"}))
        bucket, _, key = location.removeprefix("s3://").partition("/")
        await rest.lake.storage.objects.put(
            bucket, key, received, attributes=storage_model.ObjectAttributes()
        )

    rest.run(store_and_name())


@pytest.mark.parametrize("name", ["schemas", "snapshots", "properties"])
@pytest.mark.parametrize("suffix", [".metadata.json", ".gz.metadata.json"])
def test_metadata_that_takes_too_much_to_decode_is_not_registered(
    tmp_path: Path, name: str, suffix: str
) -> None:
    with kit.opened(tmp_path) as rest:
        rest.make_table("ns.t")
        loaded = rest.load("ns.t").json
        lists = b'{"schema-id":0,"snapshot-id":1,"x":[' + b"[]," * 250_000 + b"[]]}"
        value = lists if name == "properties" else b"[" + lists + b"]"
        data = msgspec.json.encode({**loaded["metadata"], name: msgspec.Raw(value)})
        location = loaded["metadata-location"].replace("00000-", "00001-")
        location = location.replace(".metadata.json", suffix)
        put(rest, location, gzip.compress(data) if ".gz" in suffix else data)
        assert rest.ask("POST", "namespaces/ns/tables/t/unregister").status == 200
        request = {"name": "t", "metadata-location": location}
        refused = rest.ask("POST", "namespaces/ns/register", request)
        assert refused.status == 400
        assert f"A part of {name} holds more than" in refused.json["error"]["message"]
        request["metadata-location"] = loaded["metadata-location"]
        assert rest.ask("POST", "namespaces/ns/register", request).status == 200


def test_a_repeated_request_about_large_metadata_is_answered_as_the_first(tmp_path: Path) -> None:
    key = "019b1c3e-0000-7000-8000-000000000001"
    with kit.opened(tmp_path) as rest:
        text = "".join(f"{number:x}." for number in range(store.SMALL_BYTES // 5))
        rest.make_table("ns.t", properties={"large": text})
        first = rest.commit("ns.t", kit.set_property("a", "b"), idempotency_key=key)
    with kit.opened(tmp_path, first_id=1_000) as rest:
        again = rest.commit("ns.t", kit.set_property("a", "b"), idempotency_key=key)
    assert (again.status, again.json) == (200, first.json)


@pytest.mark.parametrize("operation", ["load", "commit", "register"])
def test_a_client_may_try_again_after_the_decoding_process_ended_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    with kit.opened(tmp_path) as rest:
        text = "".join(f"{number:x}." for number in range(store.SMALL_BYTES // 5))
        rest.make_table("ns.t", properties={"large": text})
        location = rest.load("ns.t").json["metadata-location"]
        if operation == "register":
            assert rest.ask("POST", "namespaces/ns/tables/t/unregister").status == 200

    def ask(rest: kit.RestServer) -> kit.Answer:
        if operation == "load":
            return rest.load("ns.t")
        if operation == "commit":
            return rest.commit("ns.t", kit.set_property("a", "b"))
        body = {"name": "t", "metadata-location": location}
        return rest.ask("POST", "namespaces/ns/register", body)

    with kit.opened(tmp_path, first_id=1_000) as rest:
        with monkeypatch.context() as patches:
            patches.setattr(decoding, "SECONDS_MAX", 0.001)
            first, second = ask(rest), ask(rest)
        third = ask(rest)
    statuses = [answer.status for answer in (first, second, third)]
    assert statuses == [429, 400, 400]
    assert first.json["error"]["type"] == "TooManyRequestsException"
    assert first.headers["retry-after"] == "1"
    assert "try again" in first.json["error"]["message"]
    assert "has ended the decoding process 2 times" in third.json["error"]["message"]
    with kit.opened(tmp_path, first_id=2_000) as rest:  # the same with one death alone
        with monkeypatch.context() as patches:
            patches.setattr(decoding, "SECONDS_MAX", 0.001)
            assert ask(rest).status == 429
        assert ask(rest).status == 200
        assert rest.load("ns.t").json["metadata"]["properties"]["large"] == text
