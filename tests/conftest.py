"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit import server as server_kit

os.environ.setdefault("SNOWFLAKE_DISABLE_PLATFORM_DETECTION", "true")
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")


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
