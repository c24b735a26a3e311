"""A pytest plugin for a checkout of snowflake-connector-python: its parameters, and its outcomes.

The suite reads how to connect from a module `test.parameters` that its user writes; this plugin
provides it from CONNECTORTESTS_SERVER, so that nothing is written into the checkout. The outcomes
go to the JSON file that CONNECTORTESTS_OUTCOMES names. Each login asks for telemetry, because the
suite counts what the connector sends: by default it is on in Snowflake and off in Boathouse
(docs/SQL.md). Runs in the suite's own environment, which has nothing of Boathouse: it imports none
of its modules.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

outcomes: dict[str, dict[str, str]] = {}


def pytest_load_initial_conftests() -> None:
    """Provide the module of the connection's parameters before the suite's conftest reads it."""
    parameters = types.ModuleType("test.parameters")
    vars(parameters)["CONNECTION_PARAMETERS"] = json.loads(os.environ["CONNECTORTESTS_SERVER"])
    sys.modules["test.parameters"] = parameters
    _ask_for_telemetry()


def _ask_for_telemetry() -> None:
    """Let every connection set CLIENT_TELEMETRY_ENABLED as it logs in, unless its test does."""
    from snowflake.connector import connection

    connects = connection.SnowflakeConnection.connect

    @functools.wraps(connects)
    def connect(self: Any, **options: Any) -> Any:
        own = options.get("session_parameters") or {}
        options["session_parameters"] = {"CLIENT_TELEMETRY_ENABLED": True, **own}
        return connects(self, **options)

    connection.SnowflakeConnection.connect = connect


def pytest_runtest_logreport(report: Any) -> None:
    """Record a test's outcome: that of its call, or of a set-up or clean-up that did not pass."""
    outcome = outcomes.setdefault(report.nodeid, {"outcome": "not run"})
    if report.when != "call" and report.outcome == "passed":
        return
    if outcome["outcome"] in ("not run", "passed"):
        # xfail counts as skipped: the suite itself expects the failure.
        outcome["outcome"] = report.outcome
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            outcome["why"] = str(getattr(crash, "message", report.longrepr))[:300]


def pytest_sessionfinish(session: Any) -> None:
    """Write the outcomes of all worker processes."""
    if not hasattr(session.config, "workerinput"):
        path = Path(os.environ["CONNECTORTESTS_OUTCOMES"])
        path.write_text(json.dumps(outcomes, indent=1, sort_keys=True))
