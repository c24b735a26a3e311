"""Which worker gets which tests, and what becomes of them when a worker dies.

Workers here are values that run a test as those of pytest-xdist do: once the next one is there too,
or when no more will come.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import archive
from tests.kit import removal, workers

SHARED = ("tests/pipeline/test_a.py", "tests/pipeline/test_b.py")
COLLECTION = (
    *(f"{file}::test_shares_{number}" for file in SHARED for number in range(3)),
    *(f"{file}::test_alone_{number}" for file in SHARED for number in range(2)),
    *(f"tests/sql/test_{file}.py::test_{number}" for file in "cdefg" for number in range(2)),
    "tests/sql/test_h.py::test_0",
)
WORKERS = 3
TURNS_MAX = 1_000


class Worker:
    """A worker that a scheduler sends tests to."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.queue: list[str] = []
        self.done: list[str] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down, "a worker that ends gets no tests"
        self.queue += [COLLECTION[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_run(self) -> bool:
        return len(self.queue) > 1 or (self.shutting_down and bool(self.queue))


class Run:
    """A run of the tests with some workers; a worker dies in the tests that `deadly` names.

    Its replacement is ready after delay_turns, in each of which the others run a test. Spark is
    prepared after so many tests.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        deadly: frozenset[str] = frozenset(),
        delay_turns: int = 0,
        prepared_after: int = 0,
    ) -> None:
        names = frozenset(f"test_shares_{number}" for number in range(3))
        monkeypatch.setattr(workers, "session_users", lambda: dict.fromkeys(SHARED, names))
        option: Any = SimpleNamespace(loadscopereorder=False)
        values = {"tx": [f"{WORKERS}*popen"]}
        config: Any = SimpleNamespace(option=option, getvalue=values.get)
        self.scheduler = workers.Workers(
            config,
            is_prepared=lambda: sum(len(each.done) for each in self.workers) >= prepared_after,
        )
        self.deadly = deadly
        self.delay_turns = delay_turns
        self.coming: list[int] = []
        self.alive: list[Worker] = []
        self.ended: list[Worker] = []
        self.died_in: list[str] = []

    def to_the_end(self) -> Run:
        for _ in range(WORKERS):
            self._add()
        self.scheduler.schedule()
        for turn in range(TURNS_MAX):
            while turn in self.coming:
                self.coming.remove(turn)
                self._add()
                self.scheduler.schedule()
            if self.scheduler.tests_finished:
                for worker in self.alive:
                    worker.shutdown()
            if not self.alive and not self.coming:
                return self
            self._turn(turn)
        raise AssertionError(f"the run hangs: {[worker.queue for worker in self.alive]}")

    @property
    def workers(self) -> list[Worker]:
        return self.ended + self.alive

    def _add(self) -> None:
        worker = _worker(len(self.workers))
        self.alive.append(worker)
        self.scheduler.add_node(worker)
        self.scheduler.add_node_collection(worker, list(COLLECTION))

    def _turn(self, turn: int) -> None:
        for worker in list(self.alive):
            if worker.can_run:
                self._run_test(worker, turn)
            elif worker.shutting_down:
                self._remove(worker)
                assert self.scheduler.remove_node(worker) is None

    def _run_test(self, worker: Any, turn: int) -> None:
        test = worker.queue[0]
        if test in self.deadly and test not in self.died_in:
            self._remove(worker)
            self.died_in.append(self.scheduler.remove_node(worker) or "no test")
            self.coming.append(turn + 1 + self.delay_turns)
        else:
            worker.done.append(worker.queue.pop(0))
            self.scheduler.mark_test_complete(worker, COLLECTION.index(test))

    def _remove(self, worker: Worker) -> None:
        self.alive.remove(worker)
        self.ended.append(worker)


def _worker(number: int) -> Any:
    return Worker(number)


def users_of_the_session(run: Run) -> list[str]:
    """Return the names of workers with a test that shares the session."""
    return [
        worker.gateway.id
        for worker in run.workers
        if any("_shares_" in test for test in worker.done)
    ]


def all_done(run: Run) -> list[str]:
    return sorted(test for worker in run.workers for test in worker.done)


def test_one_worker_gets_all_tests_that_share_the_session_and_gets_them_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch).to_the_end()
    assert all_done(run) == sorted(COLLECTION)
    assert users_of_the_session(run) == ["gw0"]
    first = next(worker for worker in run.workers if worker.gateway.id == "gw0")
    assert first.done[:6] == [test for test in COLLECTION if "_shares_" in test]


@pytest.mark.parametrize("delay_turns", [0, 2, len(COLLECTION)])
@pytest.mark.parametrize("deadly", COLLECTION)
def test_a_worker_that_dies_in_a_test_leaves_the_others_to_its_replacement(
    monkeypatch: pytest.MonkeyPatch, deadly: str, delay_turns: int
) -> None:
    run = Run(monkeypatch, deadly=frozenset({deadly}), delay_turns=delay_turns).to_the_end()
    assert run.died_in == [deadly]
    assert all_done(run) == sorted(set(COLLECTION) - {deadly})
    assert set(users_of_the_session(run)) <= {"gw0", f"gw{WORKERS}"}


def test_each_worker_may_die_and_every_other_test_is_run_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadly = frozenset(COLLECTION[::2])
    run = Run(monkeypatch, deadly=deadly).to_the_end()
    assert sorted(run.died_in) == sorted(deadly)
    assert all_done(run) == sorted(set(COLLECTION) - deadly)


@pytest.mark.parametrize("prepared_after", [len(COLLECTION) // 2, len(COLLECTION)])
def test_files_with_spark_wait_until_it_is_prepared_as_long_as_there_are_others(
    monkeypatch: pytest.MonkeyPatch, prepared_after: int
) -> None:
    run = Run(monkeypatch, prepared_after=prepared_after).to_the_end()
    assert all_done(run) == sorted(COLLECTION)
    assert users_of_the_session(run) == ["gw0"]
    for worker in run.workers:
        assert "pipeline" not in worker.done[0]
        if prepared_after == len(COLLECTION):
            with_spark = ["pipeline" in test for test in worker.done]
            assert with_spark == sorted(with_spark), "they come last"


@pytest.mark.parametrize("lock", ["jars", "archive"])
def test_spark_is_not_prepared_while_a_process_holds_one_of_its_locks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lock: str
) -> None:
    monkeypatch.setenv("BOATHOUSE_CACHE", str(tmp_path / "jars"))
    monkeypatch.setattr(archive, "FOLDER", tmp_path / "archive")
    assert workers.spark_is_prepared(), "neither folder is there"
    for folder in ("jars", "archive"):
        (tmp_path / folder).mkdir()
    with (tmp_path / lock / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not workers.spark_is_prepared()
    assert workers.spark_is_prepared()


def test_a_worker_that_still_collects_gets_its_tests_when_it_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch)
    scheduler = run.scheduler
    first, second, replacement = map(_worker, range(3))
    for worker in (first, second):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, list(COLLECTION))
    scheduler.numnodes = 2
    scheduler.schedule()
    scheduler.remove_node(first)
    scheduler.add_node(replacement)
    scheduler.remove_node(second)
    assert replacement.queue == []
    scheduler.add_node_collection(replacement, list(COLLECTION))
    scheduler.schedule()
    assert replacement.queue
    assert all("_shares_" in test for test in replacement.queue)


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
@pytest.mark.parametrize("sections", [[], [("Captured stdout", "a line")]])
def test_a_worker_keeps_to_itself_only_that_a_test_was_set_up_or_ended_without_a_word(
    when: Any, outcome: Any, sections: list[tuple[str, str]]
) -> None:
    report = pytest.TestReport(
        "a", ("a", 1, "a"), {}, outcome=outcome, longrepr=None, when=when, sections=sections
    )
    is_silent = when != "call" and outcome == "passed" and not sections
    assert workers.says_something(report) == (not is_silent)


@pytest.mark.parametrize("outcome", ["passed", "failed"])
@pytest.mark.parametrize("path", [*workers.CHECKS, "tests/sql/test_a.py"])
def test_a_run_ends_where_a_check_has_failed_and_goes_on_else(path: str, outcome: Any) -> None:
    assert (workers.ROOT / workers.CHECKS[0]).exists()
    session = SimpleNamespace(shouldstop=False)
    manager = SimpleNamespace(getplugin={"dsession": session}.get)
    config: Any = SimpleNamespace(pluginmanager=manager)
    report = pytest.TestReport(
        f"{path}::test_b", (path, 1, "b"), {}, outcome=outcome, longrepr=None, when="call"
    )
    workers.Checks(config).pytest_runtest_logreport(report)
    assert bool(session.shouldstop) == (path in workers.CHECKS and outcome == "failed")


def test_a_folder_is_removed_with_what_is_in_it_and_not_what_its_links_name(
    tmp_path: Path,
) -> None:
    """`removal.remove` removes what tests write."""
    kept = tmp_path / "kept"
    (kept / "empty").mkdir(parents=True)
    (kept / "file").touch()
    folder = tmp_path / "folder"
    (folder / "full" / "empty").mkdir(parents=True)
    (folder / "full" / "file").touch(mode=0o400)
    (folder / "to a folder").symlink_to(kept)
    (folder / "to a file").symlink_to(kept / "file")
    (folder / "to nothing").symlink_to(tmp_path / "absent")
    removal.remove(folder)
    assert list(tmp_path.iterdir()) == [kept]
    assert sorted(path.name for path in kept.iterdir()) == ["empty", "file"]
