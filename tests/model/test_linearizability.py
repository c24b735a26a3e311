"""What concurrent clients of all four faces see could have happened one operation after the other.

A server as a user starts it, five clients, the same few names; the history is recorded and checked
against the sequential model (`tests.kit.lake_model`). Then the same with kill -9 in the middle, and
with faults planted in the server, which the check must find.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit import examples, invariants, lake_history, lakes
from tests.kit import server as servers
from tests.kit.linearize import UNKNOWN, Event

pytestmark = pytest.mark.campaign

OPERATIONS = 12
"""By each client, of one seed."""
OPERATIONS_UNTIL_KILLED = 400
SEEDS = 10
SEEDS_MAX = 400
"""Histories that may pass until every operation of WELL_MET has succeeded once. A rename does so in
every fourth, and how the clients' operations interleave depends on the machine."""
SEEDS_LONG = 1_000
KILLS = 2
KILLS_LONG = 40
EVENTS_UNTIL_KILLED = (30, 200)
"""A kill comes after so many operations, wherever the others stand a moment later."""


@contextmanager
def crew_of(server: servers.Running) -> Iterator[list[lake_history.Faces]]:
    crew = [lake_history.Faces(server) for _ in range(lake_history.CLIENTS)]
    try:
        yield crew
    finally:
        for faces in crew:
            faces.close()


def campaign(
    folder: Path,
    seeds: range,
    weights: Mapping[str, int] = lake_history.WEIGHTS,
    succeeding: Sequence[str] = (),
) -> Counter[tuple[str, str]]:
    """Check that many histories; return how often each operation had each outcome.

    succeeding: operations that must succeed; more histories are checked until each of them has.
    """
    succeeded: set[str] = set()
    outcomes: Counter[tuple[str, str]] = Counter()
    histories: dict[str, list[Event]] = {}
    server = servers.start(folder / "data", "--bucket", lake_history.BUCKET)
    try:
        with crew_of(server) as crew:
            for number in range(seeds.start, max(seeds.stop, seeds.start + SEEDS_MAX)):
                if number >= seeds.stop and succeeded.issuperset(succeeding):
                    break
                seed = str(number)
                events = lake_history.record(crew, seed, operations=OPERATIONS, weights=weights)
                histories[seed] = lake_history.observe(crew[0], seed, events)
                explanation = lake_history.check(histories[seed])
                assert explanation is None, f"seed {seed}: {explanation}"
                succeeded |= {
                    each.name.partition(" ")[0] for each in events if each.outcome == "ok"
                }
        assert server.stop() == 0
        # Nothing is remembered now: what is read comes from the disk.
        server = servers.start(folder / "data")
        with crew_of(server) as crew:
            for seed, events in histories.items():
                events = lake_history.observe(crew[0], seed, events)
                outcomes.update((each.name.partition(" ")[0], each.outcome) for each in events)
                explanation = lake_history.check(events)
                assert explanation is None, f"seed {seed}, after a restart: {explanation}"
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.kill()
    return outcomes


def test_histories_of_all_faces_are_linearizable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    outcomes = campaign(tmp_path, range(SEEDS), succeeding=WELL_MET)
    with capsys.disabled():
        seconds = time.monotonic() - started
        print(f"\n[{outcomes.total()} operations, {seconds:.0f} s]")
    assert not [name for name in WELL_MET if outcomes[name, "ok"] == 0]


def test_histories_of_buckets_that_come_and_go_are_linearizable(tmp_path: Path) -> None:
    outcomes = campaign(tmp_path, range(SEEDS), lake_history.WEIGHTS_OF_BUCKETS)
    for name in ("create_bucket", "delete_bucket", "create_namespace"):
        assert outcomes[name, "ok"] > 0
        assert outcomes[name, "conflict"] > 0


def test_histories_of_tables_made_of_deleted_files_are_linearizable(tmp_path: Path) -> None:
    outcomes = campaign(tmp_path, range(SEEDS), lake_history.WEIGHTS_OF_FILES)
    assert min(outcomes["register", "ok"], outcomes["delete_metadata", "ok"]) > 0


WELL_MET = (
    "append",
    "columns",
    "create_namespace",
    "create_table",
    "drop_table",
    "get",
    "list_tables",
    "load",
    "mark",
    "mark_both",
    "put",
    "put_new",
    "rename",
)
"""Operations that must succeed now and then, or the histories say little."""


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_histories_of_all_faces_are_linearizable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    outcomes = campaign(tmp_path, range(SEEDS, SEEDS + SEEDS_LONG))
    with capsys.disabled():
        seconds = time.monotonic() - started
        print(f"\n[{SEEDS_LONG} seeds, {outcomes.total()} operations, {seconds:.0f} s]")
        print("\n".join(f"{each} {count}" for each, count in sorted(outcomes.items())))
    assert not [name for name in (*WELL_MET, "register") if outcomes[name, "ok"] < 20]


def killed(folder: Path, kills: int) -> list[Event]:
    """Check histories with a kill -9 and a restart in each; return all operations."""
    chance = random.Random(kills)
    seen: list[Event] = []
    server = servers.start(folder / "data", "--bucket", lake_history.BUCKET)
    try:
        for number in range(kills):
            seed = f"k{number}"
            with crew_of(server) as crew:
                killer = threading.Timer(chance.uniform(0, 0.02), server.kill)
                events = lake_history.record(
                    crew,
                    seed,
                    operations=OPERATIONS_UNTIL_KILLED,
                    call_after=(chance.randrange(*EVENTS_UNTIL_KILLED), killer.start),
                )
                killer.join()
            with lakes.opened(server.data, first_id=(number + 1) << 40) as lake:
                invariants.check_recovered(lake.storage, server.data)
                if f"lin-{seed}" in {each.name for each in lake.storage.buckets.list()}:
                    assert lake.broken_chain(f"lin-{seed}") is None
            server = servers.start(folder / "data")
            with crew_of(server) as crew:
                events = lake_history.observe(crew[0], seed, events)
            seen += events
            explanation = lake_history.check(events)
            assert explanation is None, f"kill {number}: {explanation}"
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.kill()
    return seen


@pytest.mark.smoke
def test_a_history_with_kill_9_in_the_middle_is_linearizable(tmp_path: Path) -> None:
    events = killed(tmp_path, KILLS)
    assert len(events) > 20 * KILLS
    assert sum(1 for each in events if each.outcome == UNKNOWN) > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_histories_with_kill_9_in_the_middle_are_linearizable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = killed(tmp_path, KILLS_LONG)
    unknown = sum(1 for each in events if each.outcome == UNKNOWN)
    with capsys.disabled():
        print(f"\n[{KILLS_LONG} kills, {len(events)} operations, {unknown} of them unknown]")
    assert unknown > KILLS_LONG


PAUSE = """
from storage import index
gather = index.Index._gather
index.Index._gather = lambda self, waiting, loop: loop.call_later(
    0.02, gather, self, waiting, loop
)
"""
"""Between the plan of a commit and its transaction: two clients must meet there, and on a busy
machine they seldom do by themselves."""

FAULTS = {
    "expectations are not checked": PAUSE
    + """
from storage import index
write = index.Index._write
index.Index._write = lambda self, batch, writing: write(
    self, type(batch)(writes=batch.writes, derive=batch.derive), writing
)
""",
    "a commit whose expectation failed is answered as done": PAUSE
    + """
from storage import errors, index
write = index.Index._write
def wrongly(self, batch, writing):
    error = write(self, batch, writing)
    return None if isinstance(error, errors.ExpectationFailed) else error
index.Index._write = wrongly
""",
    "a commit now and then loses its last write": """
from storage import index
write = index.Index._write
def halved(self, batch, writing):
    if len(batch.writes) > 1 and self.__dict__.setdefault("turn", 0) % 3 == 0:
        batch = type(batch)(
            expects=batch.expects, writes=batch.writes[:-1], derive=batch.derive
        )
    self.turn = self.__dict__.get("turn", 0) + 1
    return write(self, batch, writing)
index.Index._write = halved
""",
    "a deletion leaves what it should delete": """
from storage import batch, index
apply = index._Writing.do
def do(self, write):
    if not (isinstance(write, batch.Delete) and write.store is batch.Store.POINTERS):
        apply(self, write)
index._Writing.do = do
""",
}
FAULT_SEEDS = 600
"""Histories that may pass before a fault is found; most are found in the first few."""


@pytest.mark.parametrize(
    "fault", examples.further(FAULTS, "a commit now and then loses its last write")
)
def test_a_fault_planted_in_the_server_is_found(tmp_path: Path, fault: str) -> None:
    program = tmp_path / "faulty"
    program.mkdir()
    (program / "mini.py").write_text(
        f"import runpy, sys\nsys.path.insert(0, {str(servers.ROOT)!r})\n{FAULTS[fault]}\n"
        f"runpy.run_path({str(servers.ROOT / 'mini.py')!r}, run_name='__main__')\n"
    )
    server = servers.start(tmp_path / "data", "--bucket", lake_history.BUCKET, checkout=program)
    try:
        with crew_of(server) as crew:
            assert any(is_caught(crew, str(seed)) for seed in range(FAULT_SEEDS))
    finally:
        server.kill()


def is_caught(crew: list[lake_history.Faces], seed: str) -> bool:
    """Say whether the check finds a history of this seed illegal; a 500 is no proof."""
    try:
        events = lake_history.record(crew, seed, operations=OPERATIONS)
    except lake_history.Broken:
        return False
    return lake_history.check(events) is not None
