"""A mount whose catalog hangs, or refuses one table: who waits, for how long, and who does not."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import msgspec
import pytest

from catalog import errors, idents, records
from catalog.mounts import catalogs, mounted, overlay
from server import mounts
from server.access import model
from storage import disk

NO_COPIES: Any = None
IDENT = idents.TableIdent(table_bucket="prod", namespace=("a",), name="t")


def mount_of(url: str, **more: Any) -> mounted.MountedCatalog:
    info = overlay.bucket_info("prod", owner="000000000000", region="us-east-1", since_ms=1)
    return mounted.MountedCatalog(
        mounts.Mount(name="prod", uri=url, timeout_seconds=1, **more),
        records.Place(bucket=info),
        copies=NO_COPIES,
        local=disk.Disk(),
        now_ms=lambda: 1,
    )


def test_a_catalog_that_hangs_holds_no_event_loop_and_then_fails_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mount = mount_of(f"http://127.0.0.1:{silent.getsockname()[1]}")

        async def run() -> tuple[int, float, float]:
            waiting = asyncio.ensure_future(mount.refresh())
            started, turns = time.monotonic(), 0
            while not waiting.done():
                await asyncio.sleep(0.01)
                turns += 1
            with pytest.raises(errors.MountUnavailable, match="TimeoutError"):
                await waiting
            waited, again = time.monotonic() - started, time.monotonic()
            with pytest.raises(errors.MountUnavailable):
                await mount.refresh()
            return turns, waited, time.monotonic() - again

        turns, waited, again = asyncio.run(run())
        mount.close()
    assert turns > 20
    assert waited < 5
    assert again < 0.5
    with pytest.raises(errors.MountUnavailable, match="The mount prod"):
        mount.check_listed()


def test_a_table_that_the_catalog_refuses_keeps_no_other_table_from_being_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mount = mount_of("http://127.0.0.1:9")
    calls = 0

    def refuse(*_: Any) -> Any:
        nonlocal calls
        calls += 1
        raise errors.MountUnavailable("The mount prod is not available: it refuses this table")

    monkeypatch.setattr(catalogs.OtherCatalog, "load", refuse)
    pointer = overlay.pointer_of(mount.place, ("a",), "t")
    for _ in range(2):
        with pytest.raises(errors.MountUnavailable):
            asyncio.run(mount.load(IDENT, pointer, NO_COPIES))
    assert calls == 2


def test_views_of_a_mount_are_kept_within_a_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mount, loads = mount_of("http://127.0.0.1:9", refresh_seconds=60), list[str]()

    def load(_: Any, namespace: idents.Namespace, name: str) -> catalogs.ViewAnswer:
        loads.append(name)
        size_bytes = 3 << 20 if name == "large" else 2 << 20
        metadata = msgspec.Raw(b'"' + b"x" * (size_bytes - 2) + b'"')
        return catalogs.ViewAnswer(metadata=metadata, metadata_location=f"file:///{name}.json")

    def view(name: str) -> int:
        ident = idents.TableIdent(table_bucket="prod", namespace=("a",), name=name)
        pointer = overlay.pointer_of(mount.place, ("a",), name)
        _, data = asyncio.run(mount.load_view(ident, pointer, bytes_max=2 << 20))
        return len(data)

    monkeypatch.setattr(catalogs.OtherCatalog, "load_view", load)
    with pytest.raises(errors.InvalidMetadataFile, match=r"a\.large is larger than 2097152"):
        view("large")
    names = [f"v{number}" for number in range(12)]
    assert {view(name) for name in names} == {2 << 20}
    loads.clear()
    assert {view(name) for name in reversed(names)} == {2 << 20}
    assert loads == ["v3", "v2", "v1", "v0"]  # 16 MiB hold the other eight
    mount.close()


def test_rows_of_a_mount_have_stable_ids_while_names_come_and_go() -> None:
    mount = mount_of("http://127.0.0.1:9")
    namespace_ids: dict[idents.Namespace, int] = {}
    overlay.encode(mount.place, {("a",): ["t"], ("b", "c"): []}, namespace_ids)
    before = dict(namespace_ids)
    assert set(before) == {("a",), ("b",), ("b", "c")}
    overlay.encode(mount.place, {("aa",): [], ("b", "c"): ["u"]}, namespace_ids)
    assert {path: namespace_ids[path] for path in before} == before
    assert len(set(namespace_ids.values())) == 4
    uuids = {overlay.object_uuid("prod", ("a",), "t"), overlay.object_uuid("prod", ("a", "t"))}
    assert len({*uuids, overlay.object_uuid("dev", ("a",), "t")}) == 3


@pytest.mark.parametrize("action", ["PutTableData", "CreateNamespace", "DeleteTable"])
def test_a_demand_beyond_reading_is_refused_for_a_mount_alone(
    action: str,
) -> None:
    both = mounted.Mounts(
        (mounts.Mount(name="prod", uri="http://127.0.0.1:9"),),
        owner="000000000000",
        region="us-east-1",
        copies=NO_COPIES,
        local=disk.Disk(),
        now_ms=lambda: 1,
    )

    def demand(name: str, action: str) -> model.Demand:
        arn = f"arn:aws:s3tables:us-east-1:000000000000:bucket/{name}/table/x"
        return model.Demand(action=f"s3tables:{action}", resource=arn)

    both.check_reads([demand("prod", "GetTableData"), demand("product", action)])
    with pytest.raises(errors.MountReadOnly, match="prod is a mount"):
        both.check_reads([demand("prod", "GetTableData"), demand("prod", action)])
