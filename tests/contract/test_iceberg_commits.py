"""Commits to a running server: many writers at once, restarts, and the power going off."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.kit import lakes, rest
from tests.kit import server as servers

WRITERS = 8


def write(server: servers.Running, writer: int, token: str, commits: int) -> Counter[int]:
    """Append until a writer's share of commits has landed; count the answers."""
    answers: Counter[int] = Counter()
    with rest.Client(server, token=token) as client:
        _, seen = client.ask("GET", "namespaces/race/tables/t")
        metadata = seen["metadata"]
        for number in range(commits // WRITERS):
            while True:
                snapshot_id = writer * 1_000_000 + number + 1
                status, answer = client.commit("race", "t", *rest.append(metadata, snapshot_id))
                answers[status] += 1
                if status == 200:
                    metadata = answer["metadata"]
                    break
                assert status == 409, answer
                assert answer["error"]["type"] == "CommitFailedException"
                assert "Requirement failed: branch main" in answer["error"]["message"]
                _, seen = client.ask("GET", "namespaces/race/tables/t")
                metadata = seen["metadata"]
    return answers


@pytest.mark.parametrize("commits", [200, pytest.param(400, marks=pytest.mark.long)])
def test_eight_writers_of_one_table_leave_one_unbroken_history(
    tmp_path: Path, commits: int
) -> None:
    server = servers.start(tmp_path / "data")
    try:
        with rest.Client(server) as client:
            client.make_table("race", "t", **{"write.metadata.previous-versions-max": "1000"})
            token = client.token
        with ThreadPoolExecutor(WRITERS) as pool:
            counted = list(
                pool.map(lambda each: write(server, each, token, commits), range(WRITERS))
            )
        with rest.Client(server) as client:
            _, loaded = client.ask("GET", "namespaces/race/tables/t")
    finally:
        assert server.stop() == 0
    answers = sum(counted, Counter[int]())
    assert answers[200] == commits
    assert answers.keys() <= {200, 409}

    metadata = loaded["metadata"]
    snapshots = metadata["snapshots"]
    ids = [each["snapshot-id"] for each in snapshots]
    assert len(set(ids)) == commits
    assert [each.get("parent-snapshot-id") for each in snapshots] == [None, *ids[:-1]]
    assert [each["sequence-number"] for each in snapshots] == list(range(1, commits + 1))
    assert metadata["current-snapshot-id"] == ids[-1]
    assert [each["snapshot-id"] for each in metadata["snapshot-log"]] == ids

    with lakes.opened(server.data, first_id=1 << 40) as lake:
        assert lake.broken_chain() is None
        ops = [op for each in lake.log() for op in each.record.ops if op.name == "t"]
        assert len(ops) == commits + 1
        files = [lakes.pointer_after(op).metadata_location for op in ops]
        assert len(set(files)) == commits + 1
        assert [each["metadata-file"] for each in metadata["metadata-log"]] == files[:-1]
        assert loaded["metadata-location"] == files[-1]
        # Every state the table ever had can still be read, and says which one it came from.
        for before, location in itertools.pairwise(files):
            assert location is not None
            place = lake.store.place("lake")
            said = lake.run(lake.store.fetch_metadata(location, place=place)).table
            assert said.metadata_log[-1]["metadata-file"] == before


def test_a_restart_of_the_server_keeps_everything(tmp_path: Path) -> None:
    server = servers.start(tmp_path / "data")
    try:
        with rest.Client(server) as client:
            client.make_table("ns", "t")
            client.make_table("ns", "gone")
            client.commit("ns", "t", [set_property("a", "1")])
            client.ask("DELETE", "namespaces/ns/tables/gone?purgeRequested=true")
            _, before = client.ask("GET", "namespaces/ns/tables/t")
            token = client.token
    finally:
        assert server.stop() == 0
    server = servers.start(tmp_path / "data")
    try:
        # Tokens go on too: keys of the signer are kept.
        with rest.Client(server, token=token) as client:
            _, after = client.ask("GET", "namespaces/ns/tables/t")
            _, listed = client.ask("GET", "namespaces/ns/tables")
    finally:
        assert server.stop() == 0
    assert after["metadata"] == before["metadata"]
    assert [each["name"] for each in listed["identifiers"]] == ["t"]


def set_property(name: str, value: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {name: value}}


@pytest.mark.parametrize(
    "commits",
    [pytest.param(1, marks=pytest.mark.further), 30, pytest.param(90, marks=pytest.mark.further)],
)
def test_what_was_acknowledged_survives_kill_nine(tmp_path: Path, commits: int) -> None:
    server = servers.start(tmp_path / "data")
    acknowledged: dict[str, list[int]] = {}
    try:
        with rest.Client(server) as client:
            for table in ("shared", "a", "b", "c"):
                client.make_table("ns", table)
            token = client.token
        started = threading.Barrier(7)

        def commit(writer: int) -> None:
            table = ("shared", "shared", "shared", "a", "b", "c")[writer]
            landed = acknowledged.setdefault(f"w{writer}", [])
            with rest.Client(server, token=token) as client:
                started.wait()
                number = 0
                while True:
                    number += 1
                    update = [set_property(f"w{writer}", str(number))]
                    try:
                        status, _ = client.commit("ns", table, update)
                    except (OSError, http.client.HTTPException):
                        return
                    assert status == 200
                    landed.append(number)

        with ThreadPoolExecutor(6) as pool:
            writing = [pool.submit(commit, writer) for writer in range(6)]
            started.wait()
            while sum(map(len, list(acknowledged.values()))) < commits:
                assert not any(each.done() for each in writing)
                time.sleep(0.001)
            server.kill()
            for each in writing:
                each.result()
    finally:
        if server.process.poll() is None:
            server.kill()
    assert sum(map(len, acknowledged.values())) >= commits

    server = servers.start(tmp_path / "data")
    try:
        properties: dict[str, str] = {}
        with rest.Client(server) as client:
            for table in ("shared", "a", "b", "c"):
                status, loaded = client.ask("GET", f"namespaces/ns/tables/{table}")
                assert status == 200
                properties |= loaded["metadata"]["properties"]
                status, _ = client.commit("ns", table, [set_property("after", "1")])
                assert status == 200
    finally:
        assert server.stop() == 0
    for writer, landed in acknowledged.items():
        last = int(properties.get(writer, "0"))
        # What was under way when the power went may have landed, or not at all.
        assert last in (len(landed), len(landed) + 1)
    with lakes.opened(server.data, first_id=1 << 40) as lake:
        assert lake.broken_chain() is None
