"""Maintenance settings: what they read back as, and who obeys them."""

from __future__ import annotations

import asyncio
import datetime
import functools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import access
from catalog.sweep import referrers, retention, sweeping
from pipeline import errors as pipeline_errors
from pipeline import maintenance as pipeline_maintenance
from pipeline import settings as pipeline_settings
from s3tables import labels, maintenance, resources
from server import calls
from server.access import decide
from server.auth import callers, chunked
from storage import model
from tests.kit import lakes, sweeps
from tests.s3tables.tables_service import TablesService, allow, bucket_arn, opened, policy, refused
from tests.server import requesting

BUCKET = bucket_arn("lake")
ORDERS = {"tableBucketARN": BUCKET, "namespace": "sales", "name": "orders"}
REMOVAL = "icebergUnreferencedFileRemoval"
STRAY = "sales/orders/data/stray.parquet"


class Direct:
    """The functions of the operations over a lake, with a sweep that a test runs."""

    def __init__(self, lake: lakes.Lake) -> None:
        self.lake = lake
        self.sweep = sweeps.sweep_of(lake)
        storage, authoriser = lake.storage, decide.Authoriser(now_ms=lake.clock)
        self.resources = resources.Resources(
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
            sweep=self.sweep,
            referrers=referrers.Referrers(store=lake.store, files=None),
            access_logs=lakes.access_logs_of(lake, authoriser),
            region="us-east-1",
            account_id=lakes.ACCOUNT,
        )

    def ask(self, function: Any, **members: Any) -> Any:
        value = types.SimpleNamespace(members=members)
        call = calls.Call(calls.Operation(name=""), value, requesting.request())
        call.caller = callers.Caller(
            principal=lakes.ROOT,
            payload=chunked.UNSIGNED_PAYLOAD,
            credential_id="",
            signing=callers.Signing(scheme="open"),
        )
        return asyncio.run(function(self.resources, call))

    def put_removal(self, **value: Any) -> None:
        self.ask(
            maintenance.put_bucket_maintenance, tableBucketARN=BUCKET, type=REMOVAL, value=value
        )

    def status(self) -> dict[str, Any]:
        statuses: dict[str, Any] = self.ask(maintenance.get_job_status, **ORDERS)["status"]
        return dict(statuses[REMOVAL])

    def put_stray(self) -> None:
        """Put a file that no metadata references."""
        put = self.lake.storage.objects.plan_put(
            self.lake.store.bucket("lake"),
            STRAY,
            b"PAR1 stray",
            attributes=model.ObjectAttributes(),
            now_ms=self.lake.clock(),
        )
        self.lake.run(self.lake.storage.index.commit(put))


@pytest.fixture
def direct(lake: lakes.Lake) -> Direct:
    lake.run(lake.namespaces.create("lake", ("sales",), by=lakes.BY))
    lake.run(lake.tables.create(lake.ident("sales.orders"), schema=lakes.SCHEMA, by=lakes.BY))
    return Direct(lake)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakes.Lake]:
    with lakes.opened(tmp_path / "data") as opened_lake:
        yield opened_lake


def run(direct: Direct) -> tuple[int, int]:
    """Sweep; return how many files were hidden and freed."""
    report = sweeps.run(direct.lake, sweep=direct.sweep)
    return report.hidden.files, report.freed.files


def test_the_sweep_obeys_the_days_of_the_bucket(direct: Direct) -> None:
    direct.put_stray()
    direct.put_removal(settings={REMOVAL: {"unreferencedDays": 20, "nonCurrentDays": 2}})
    sweeps.pass_days(direct.lake, 19)
    assert run(direct) == (0, 0)
    sweeps.pass_days(direct.lake, 1.1)
    assert run(direct) == (1, 0)
    sweeps.pass_days(direct.lake, 1)
    assert run(direct) == (0, 0)
    sweeps.pass_days(direct.lake, 1.1)
    assert run(direct) == (0, 1)
    assert STRAY not in sweeps.keys_in(direct.lake)


def test_a_disabled_removal_keeps_every_unreferenced_file(direct: Direct) -> None:
    direct.put_stray()
    direct.put_removal(status="disabled")
    sweeps.pass_days(direct.lake, 100)
    assert run(direct) == (0, 0)
    assert direct.status() == {"status": "Disabled"}
    direct.put_removal(status="enabled")
    assert run(direct) == (1, 0)
    direct.put_removal(status="disabled")
    sweeps.pass_days(direct.lake, 100)
    assert run(direct) == (0, 0)
    assert STRAY in sweeps.keys_in(direct.lake)


def test_files_of_a_table_that_was_deleted_are_freed_where_the_removal_is_disabled(
    direct: Direct,
) -> None:
    direct.put_removal(status="disabled")
    ident = direct.lake.ident("sales.orders")
    direct.lake.run(direct.lake.tables.drop(ident, purge=True, by=lakes.BY))
    sweeps.pass_days(direct.lake, 8)
    assert run(direct)[1] > 0
    assert sweeps.keys_in(direct.lake, "sales/orders/") == set()


def test_a_setting_that_changes_while_a_file_is_judged_keeps_the_file(
    direct: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct.put_stray()
    sweeps.pass_days(direct.lake, 8)
    hide = direct.lake.storage.objects.hide_seen

    async def hide_later(*values: Any, **more: Any) -> Any:
        await direct.lake.storage.buckets.change(
            "lake", lambda old: {**old, retention.REMOVES_UNREFERENCED: False}
        )
        return await hide(*values, **more)

    monkeypatch.setattr(direct.lake.storage.objects, "hide_seen", hide_later)
    report = sweeps.run(direct.lake, sweep=direct.sweep)
    assert (report.hidden.files, report.deferred.files) == (0, 1)


def test_the_status_is_that_of_the_latest_run(direct: Direct) -> None:
    assert direct.status() == {"status": "Not_Yet_Run"}
    sweeps.run(direct.lake, sweep=direct.sweep, dry_run=True)
    assert direct.status() == {"status": "Not_Yet_Run"}
    run(direct)
    first = direct.status()
    assert first == {"status": "Successful", "lastRunTimestamp": direct.lake.clock.now_ms}
    sweeps.pass_days(direct.lake, 1)
    assert direct.status() == first
    run(direct)
    assert direct.status()["lastRunTimestamp"] == direct.lake.clock.now_ms


@pytest.mark.parametrize(
    ("problems", "count", "error", "status"),
    [
        ([], 0, None, "Successful"),
        ([], 0, "the sweep failed", "Failed"),
        (["s3://lake/sales/orders/metadata/x.avro cannot be read"], 1, None, "Failed"),
        (["s3://lake/sales/orders2/metadata/x.avro cannot be read"], 1, None, "Successful"),
        (["s3://lake/sales/orders2/metadata/x.avro cannot be read"], 2, None, "Failed"),
    ],
)
def test_a_run_that_kept_files_of_the_table_for_a_problem_is_no_success(
    direct: Direct,
    monkeypatch: pytest.MonkeyPatch,
    problems: list[str],
    count: int,
    error: str | None,
    status: str,
) -> None:
    report = sweeping.Report(
        started_at_ms=5, problems=problems, problems_count=count, error=error, state="done"
    )
    monkeypatch.setattr(direct.sweep, "finished", lambda _: report)
    answer = direct.status()
    assert (answer["status"], answer["lastRunTimestamp"]) == (status, 5)
    assert ("failureMessage" in answer) is (status == "Failed")


# Over the wire.


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TablesService]:
    people = {
        "reader": [policy(allow("s3tables:Get*", [BUCKET, f"{BUCKET}/table/*"]))],
        "lister": [policy(allow(["s3tables:ListTableBuckets", "s3tables:GetTableBucket"], "*"))],
        "stranger": [policy(allow("s3tables:ListTableBuckets", "*"))],
    }
    with opened(tmp_path_factory.mktemp("maintenance") / "data", users=people) as running:
        client = running.client()
        client.create_namespace(tableBucketARN=BUCKET, namespace=["sales"])
        client.create_table(**ORDERS, format="ICEBERG")
        yield running


def test_settings_read_back_with_defaults_and_survive_a_rename(service: TablesService) -> None:
    client = service.client()
    client.create_table(**{**ORDERS, "name": "moving"}, format="ICEBERG")
    moving = {**ORDERS, "name": "moving"}

    def read(**where: str) -> dict[str, Any]:
        return dict(client.get_table_maintenance_configuration(**where)["configuration"])

    compaction = {"targetFileSizeMB": 512, "strategy": "auto"}
    snapshots = {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 120}
    assert read(**moving) == {
        "icebergCompaction": {"status": "enabled", "settings": {"icebergCompaction": compaction}},
        "icebergSnapshotManagement": {
            "status": "enabled",
            "settings": {"icebergSnapshotManagement": snapshots},
        },
    }
    client.put_table_maintenance_configuration(
        **moving,
        type="icebergCompaction",
        value={"status": "disabled", "settings": {"icebergCompaction": {"targetFileSizeMB": 128}}},
    )
    client.rename_table(**moving, newName="moved")
    after = read(**{**moving, "name": "moved"})
    assert after["icebergCompaction"] == {
        "status": "disabled",
        "settings": {"icebergCompaction": {**compaction, "targetFileSizeMB": 128}},
    }
    assert after["icebergSnapshotManagement"]["status"] == "enabled"
    client.put_table_maintenance_configuration(
        **{**moving, "name": "moved"}, type="icebergCompaction", value={}
    )
    assert read(**{**moving, "name": "moved"})["icebergCompaction"] == {
        "status": "enabled",
        "settings": {"icebergCompaction": compaction},
    }


def test_a_caller_needs_the_action_of_the_operation(service: TablesService) -> None:
    reader = service.client("reader")
    reader.get_table_maintenance_configuration(**ORDERS)
    reader.get_table_maintenance_job_status(**ORDERS)
    reader.get_table_bucket_maintenance_configuration(tableBucketARN=BUCKET)
    for call, members in (
        (reader.put_table_maintenance_configuration, {**ORDERS, "type": "icebergCompaction"}),
        (
            reader.put_table_bucket_maintenance_configuration,
            {"tableBucketARN": BUCKET, "type": REMOVAL},
        ),
    ):
        assert refused(call, **members, value={})[:2] == (403, "AccessDeniedException")


def test_the_jobs_of_the_pipeline_take_settings_that_differ_from_the_defaults(
    service: TablesService,
) -> None:
    client = service.client()
    table = pipeline_settings.parse_table("lake.sales.orders")
    configured = functools.partial(pipeline_maintenance.configured, client, for_expiry=True)
    assert configured(table) == pipeline_maintenance.Configured()
    client.put_table_maintenance_configuration(
        **ORDERS,
        type="icebergCompaction",
        value={"settings": {"icebergCompaction": {"targetFileSizeMB": 64}}},
    )
    client.put_table_maintenance_configuration(
        **ORDERS,
        type="icebergSnapshotManagement",
        value={
            "settings": {
                "icebergSnapshotManagement": {"minSnapshotsToKeep": 3, "maxSnapshotAgeHours": 48}
            }
        },
    )
    assert configured(table) == pipeline_maintenance.Configured(
        target_file_size_mib=64, retain_last=3, max_age=datetime.timedelta(days=2)
    )
    absent = pipeline_settings.parse_table("lake.sales.absent")
    assert configured(absent) == pipeline_maintenance.Configured()
    for beyond_the_api in ("lake.a.b.t", "lake.sales.Orders-1", "lake.Sales.orders"):
        other = pipeline_settings.parse_table(beyond_the_api)
        assert configured(other) == pipeline_maintenance.Configured()


@pytest.mark.parametrize("user", ["lister", "stranger"])
def test_snapshots_are_not_expired_by_settings_that_the_caller_may_not_read(
    service: TablesService, user: str
) -> None:
    client = service.client(user)
    table = pipeline_settings.parse_table("lake.sales.orders")
    assert (
        pipeline_maintenance.configured(client, table, for_expiry=False)
        == pipeline_maintenance.Configured()
    )
    with pytest.raises(pipeline_errors.BadArgument, match="--older-than and --retain-last"):
        pipeline_maintenance.configured(client, table, for_expiry=True)
