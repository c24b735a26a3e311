"""Which process of a run gets which tests: `make test` runs them in several.

A file is one piece of work, of the campaign a test. A file with Spark is two: the tests that share
one session of Spark, and the others. One worker, the session's, takes all that share it, and takes
them first: a session costs its start, and each sort of job costs most the first time. No other
worker ever gets one of them. If the session's worker dies, the worker that replaces it gets what is
left.

`make test` prepares Spark's jars and the archive of its classes while the first tests run: until
then, workers get files without Spark, as long as there are any.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from pipeline import archive, jars

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
CHECKS = ("tests/test_tidy.py", "tests/test_docs.py")
"""The first tests of a run: if one fails, the run ends when each worker has ended its file."""
CAMPAIGN = "tests/campaign/test_stalls.py"
SPARK_MARK = "mark.spark"
SESSION_SUFFIX = " with a session of Spark"
TEST = re.compile(r"^def (test_\w+)\((.*?)\) -> None:$", re.MULTILINE | re.DOTALL)
SESSION_USERS = re.compile(
    r"\b(?:lake: Lake|either: Lake|spark: |engines: |writing: |session: Any)"
)
"""What the arguments of a test that shares the session of Spark look like."""


def files_with_spark() -> frozenset[Path]:
    """Return the files with tests of Spark."""
    return frozenset(path for path in TESTS.rglob("test_*.py") if SPARK_MARK in path.read_text())


def session_users() -> dict[str, frozenset[str]]:
    """Return the names of the tests that share one session, by their file's path.

    The other tests of Spark start it themselves.
    """
    return {
        path.relative_to(ROOT).as_posix(): frozenset(
            name
            for name, arguments in TEST.findall(path.read_text())
            if SESSION_USERS.search(arguments)
        )
        for path in files_with_spark()
    }


def spark_is_prepared() -> bool:
    """Return whether no process is preparing Spark on this machine, for this checkout."""
    return not any(
        _is_locked(folder / ".lock") for folder in (jars.cache_folder(os.environ), archive.FOLDER)
    )


def _is_locked(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def says_something(report: pytest.TestReport) -> bool:
    """Return whether a run's result needs a report: not those of what a test only sets up."""
    return report.when == "call" or not report.passed or bool(report.sections)


class Checks:
    """Ends a run in several processes in which a check has failed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid.partition("::")[0] in CHECKS:
            session: Any = self._config.pluginmanager.getplugin("dsession")
            session.shouldstop = "a check has failed"


class Workers(LoadFileScheduling):
    """Gives the workers of pytest-xdist a file at a time, as this module's docstring says.

    A test during which a worker died has failed and is not run again.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Any = None,
        *,
        is_prepared: Callable[[], bool] = spark_is_prepared,
    ) -> None:
        super().__init__(config, log)
        self._session_users = session_users()
        self._is_prepared = is_prepared
        self._session_worker: Any = None
        self._places: dict[str, int] = {}

    def add_node(self, node: Any) -> None:
        super().add_node(node)
        if self.collection is not None and self._session_worker is None:
            self._session_worker = node

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker that has ended; return the test during which it died, or None.

        The tests that it has not begun go back to the queue.
        """
        if node is self._session_worker:
            self._session_worker = None
        left = [
            (unit, test)
            for unit, tests in self.assigned_work.pop(node).items()
            for test, is_complete in tests.items()
            if not is_complete
        ]
        if not left:
            return None
        (_, died_in), *waiting = left
        for unit, test in waiting:
            self.workqueue.setdefault(unit, {})[test] = False
        for other in self.nodes:
            self._reschedule(other)
        return died_in

    def schedule(self) -> None:
        """Give each worker its first tests, at the start or when a replacement has collected."""
        if self.collection is None:
            self._session_worker = self.nodes[0]
            collected = self.registered_collections[self._session_worker]
            self._places = {test: place for place, test in enumerate(collected)}
        super().schedule()
        # A worker runs a test when it has the next one. A replacement may have got a single one.
        for node in self.nodes:
            self._reschedule(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note that a test has ended, and forget the units of work of which none is left.

        pytest-xdist counts all tests of a worker after each of them.
        """
        unit = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        if all(self.assigned_work[node][unit].values()):
            del self.assigned_work[node][unit]

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        if path == CAMPAIGN:
            return nodeid
        shares = test.partition("[")[0] in self._session_users.get(path, ())
        return f"{path}{SESSION_SUFFIX}" if shares else path

    def _assign_work_unit(self, node: Any) -> None:
        unit = self._next_unit(has_session=node is self._session_worker)
        if unit is not None:
            tests = self.assigned_work[node][unit] = self.workqueue.pop(unit)
            left = [self._places[test] for test, is_complete in tests.items() if not is_complete]
            node.send_runtest_some(left)
        elif not node.shutting_down:
            node.shutdown()  # it ends what it has

    def _next_unit(self, *, has_session: bool) -> str | None:
        """Return the piece of work that suits a worker best; None if there is none for it."""
        own = [unit for unit in self.workqueue if _shares(unit) == has_session]
        if own and not self._needs_spark(own[0]):
            return own[0]
        if not self._is_prepared():
            without = (unit for unit in self.workqueue if not self._needs_spark(unit))
            own = [*without, *own]
        if has_session:
            own += self.workqueue
        return next(iter(own), None)

    def _needs_spark(self, unit: str) -> bool:
        return unit.removesuffix(SESSION_SUFFIX) in self._session_users

    def _reschedule(self, node: Any) -> None:
        if node not in self.registered_collections:
            return  # a replacement that still collects: `schedule` follows
        if node is not self._session_worker and all(map(_shares, self.workqueue)):
            if not node.shutting_down:
                node.shutdown()
        else:
            super()._reschedule(node)


def _shares(unit: str) -> bool:
    return unit.endswith(SESSION_SUFFIX)
