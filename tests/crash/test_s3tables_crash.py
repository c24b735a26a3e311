"""Power cuts during CreateTable: a table and its tags are one, whatever is lost."""

from __future__ import annotations

import asyncio
import types
from pathlib import Path
from typing import Any

import pytest

from catalog import access
from catalog import errors as catalog_errors
from catalog.sweep import referrers, sweeping
from s3tables import labels, resources, tables, tags
from server import calls
from server.access import decide, model
from server.auth import callers, chunked
from server.aws import face
from storage import errors as storage_errors
from tests.kit import lakes
from tests.kit.faulty_disk import FaultyDisk, PowerCut
from tests.server import requesting

ROOT = model.Principal(
    type="root",
    name="root",
    arn=lakes.BY,
    account_id=lakes.ACCOUNT,
    canonical_id="0" * 64,
    display_name="root",
)
BUCKET = f"arn:aws:s3tables:us-east-1:{lakes.ACCOUNT}:bucket/lake"
WHERE = {"tableBucketARN": BUCKET, "namespace": "sales", "name": "orders"}
TAGS = {"team": "lake", "kept": "for good"}
FIELDS = [{"name": "id", "type": "long"}]


def services(lake: lakes.Lake) -> resources.Resources:
    storage = lake.storage
    authoriser = decide.Authoriser(now_ms=lake.clock)
    return resources.Resources(
        buckets=storage.buckets,
        namespaces=lake.namespaces,
        tables=lake.tables,
        labels=labels.Labels(index=storage.index, buckets=storage.buckets),
        index=storage.index,
        authoriser=authoriser,
        access=access.Access(
            store=lake.store,
            authoriser=authoriser,
            region="us-east-1",
            account_id=lakes.ACCOUNT,
        ),
        sweep=sweeping.TableSweep(store=lake.store, files=None),
        referrers=referrers.Referrers(store=lake.store, files=None),
        access_logs=lakes.access_logs_of(lake, authoriser),
        region="us-east-1",
        account_id=lakes.ACCOUNT,
    )


def ask(function: face.Function, lake: lakes.Lake, members: dict[str, Any]) -> Any:
    """Call the function of an operation with members that were checked."""
    value = types.SimpleNamespace(members=members)
    call = calls.Call(calls.Operation(name=""), value, requesting.request())
    call.caller = callers.Caller(
        principal=ROOT,
        payload=chunked.UNSIGNED_PAYLOAD,
        credential_id="",
        signing=callers.Signing(scheme="open"),
    )
    return asyncio.run(function(services(lake), call))


def create(place: Path, members: dict[str, Any], *, stop_at: int) -> bool:
    """Create a table on a disk that loses power at an event of it; say if it was acknowledged."""
    disk = FaultyDisk(place / "aside")
    with lakes.opened(place / "data", disk=disk) as lake:
        lake.run(lake.namespaces.create("lake", ("sales",), by=lakes.BY))
        disk.stop_at = disk.events + stop_at
        try:
            ask(tables.create_table, lake, members)
        except (PowerCut, storage_errors.StorageError, catalog_errors.CatalogError):
            assert disk.off
            return False
    return True


@pytest.mark.parametrize("metadata", [None, {"iceberg": {"schema": {"fields": FIELDS}}}])
def test_after_a_power_cut_at_any_event_a_table_has_all_its_tags_or_is_not_there(
    tmp_path: Path, metadata: Any
) -> None:
    members: dict[str, Any] = {**WHERE, "format": "ICEBERG", "tags": TAGS}
    if metadata is not None:
        members["metadata"] = metadata
    stop_at, acknowledged = 1, False
    there: set[bool] = set()
    while not acknowledged:
        place = tmp_path / str(stop_at)
        acknowledged = create(place, members, stop_at=stop_at)
        with lakes.opened(place / "data", first_id=10_000) as lake:
            try:
                table = ask(tables.get_table, lake, WHERE)
            except catalog_errors.NoSuchTable:
                assert not acknowledged
                there.add(False)
            else:
                arn = {"resourceArn": table["tableARN"]}
                kept = ask(tags.list_tags_for_resource, lake, arn)
                assert kept == {"tags": TAGS}
                assert ("metadataLocation" in table) is (metadata is not None)
                there.add(True)
        stop_at += 1
    assert there == {False, True}
    assert stop_at > 3, "the index transaction is an event before and one after it"
