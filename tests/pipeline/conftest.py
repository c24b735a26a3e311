"""What the pipeline's tests share: the server as jobs know it, and buckets of raw files."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import pytest

from pipeline import interrupts, progress, servers, session, settings, sources
from tests.kit import kafka_broker
from tests.kit import server as server_kit
from tests.pipeline.lake import Lake, Raw, Small, Watched


@pytest.fixture(scope="session")
def endpoint(server: server_kit.Running) -> settings.ServerEndpoint:
    """The running server, found as a job finds it."""
    return servers.find(url=None, data=str(server.data), environment={}, region=None)


@pytest.fixture
def unused() -> str:
    """A URL on loopback where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[settings.ServerEndpoint]:
    """A second server, with table buckets `lake` and `vault`; `vault` offers what AWS offers."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "mini.toml").write_text(
        "[table_buckets.lake]\n[table_buckets.vault]\naws_strict = true\n"
    )
    running = server_kit.start(folder / "data", "--config", str(folder / "mini.toml"))
    yield servers.find(url=None, data=str(running.data), environment={}, region=None)
    assert running.stop() == 0


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Iterator[interrupts.Interrupts]:
    """The handler of signals, as a job's process has it."""
    numbers = (signal.SIGINT, signal.SIGTERM, interrupts.CANCEL, interrupts.AGAIN)
    before = [signal.getsignal(number) for number in numbers]
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    handler = interrupts.Interrupts()
    handler.install()
    yield handler
    for number, one in zip(numbers, before, strict=True):
        signal.signal(number, one)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> dict[str, Watched]:
    """What a job would show, by its label, as it is counted at the end of each block."""
    shown: dict[str, Watched] = {}

    @contextlib.contextmanager
    def watching(
        label: str,
        counters: Callable[[], progress.JobCounters],
        *,
        total_bytes: int | None = None,
        total_rows: int | None = None,
    ) -> Iterator[None]:
        yield
        shown[label] = Watched(counts=counters(), total_bytes=total_bytes, total_rows=total_rows)

    monkeypatch.setattr(progress, "watching", watching)
    return shown


NUMBERS = itertools.count(1)


@pytest.fixture
def raw(endpoint: settings.ServerEndpoint) -> Raw:
    """An empty bucket of the test's own."""
    return Raw(sources.client(endpoint), f"pipeline-raw-{next(NUMBERS)}")


@pytest.fixture(scope="session")
def lake(endpoint: settings.ServerEndpoint, spark: session.Spark) -> Lake:
    """The warehouse `lake` for Spark tests."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "lake",
        type="rest",
        uri=endpoint.iceberg,
        warehouse="lake",
        credential=f"{endpoint.access_key}:{endpoint.secret_key}",
        **{"oauth2-server-uri": f"{endpoint.iceberg}/v1/oauth/tokens"},
    )
    return Lake(server=endpoint, spark=spark, catalog=catalog)


@pytest.fixture(scope="session")
def small(endpoint: settings.ServerEndpoint) -> Small:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "lake",
        type="rest",
        uri=endpoint.iceberg,
        warehouse="lake",
        credential=f"{endpoint.access_key}:{endpoint.secret_key}",
        **{"oauth2-server-uri": f"{endpoint.iceberg}/v1/oauth/tokens"},
    )
    return Small(endpoint, catalog)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_broker.Broker]:
    """A broker of Kafka."""
    with kafka_broker.running(tmp_path_factory.mktemp("kafka")) as started:
        yield started
