"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import server as server_kit

os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")


ORDER = (
    "test_tidy", "test_docs", "storage", "server", "catalog", "s3tables", "sql", "pipeline",
    "fuzz", "model", "test_provision", "test_mini", "contract", "crash",
)  # fmt: skip
"""Quick and local tests first, those that start processes and clients last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run fast tests first; within a place the order stays as it is."""

    def place(item: pytest.Item) -> int:
        parts = item.path.relative_to(server_kit.ROOT / "tests").with_suffix("").parts
        return ORDER.index(parts[0]) if parts[0] in ORDER else len(ORDER)

    items.sort(key=place)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    """One server for the whole run, with table bucket `lake`. Use names of your own in it."""
    running = server_kit.start(tmp_path_factory.mktemp("server") / "data")
    yield running
    code = running.stop()
    assert code == 0, f"the server ended with {code}:\n{running.log.read_text()[-4000:]}"


@pytest.fixture(scope="session")
def spark(server: server_kit.Running) -> Iterator[Any]:
    """One Spark session (a `pipeline.session.Spark`) for the whole run, on warehouse `lake`."""
    from pipeline import servers, session

    house = servers.find(url=None, data=str(server.data), environment={}, region=None)
    with session.started(house, "lake", master="local[2]", say=print) as started:
        yield started
