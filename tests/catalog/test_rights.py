"""The same table, asked for at every door, makes the same demand."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from catalog import access, errors, guard, readers, records, rights
from catalog.rest import native, rows
from catalog.sweep import referrers, sweeping
from s3tables import face as s3tables_face
from s3tables.labels import Labels
from s3tables.resources import Resources
from server import config
from server.access import decide, model, principals, rootkeys
from server.s3 import ownership
from server.s3 import rows as s3_rows
from sql import contexts, places
from sql.dialect import names as sql_names
from storage import checksums
from storage import model as storage_model
from tests.kit import lakes

REGION = "us-east-1"
BUCKET_ARN = f"arn:aws:s3tables:{REGION}:{lakes.ACCOUNT}:bucket/lake"
AT_BUCKET = {"lake:branch": "main"}
AT_NAMESPACE = {**AT_BUCKET, "s3tables:namespace": "ns"}
AT_TABLE = {**AT_NAMESPACE, "s3tables:tableName": "t"}


class Recorder(decide.Authoriser):
    """Permits everything and keeps what was demanded."""

    def __init__(self) -> None:
        super().__init__(now_ms=lambda: lakes.NOW_MS)
        self.demands: list[model.Demand] = []

    def decide(self, principal: model.Principal, demand: model.Demand) -> model.Decision:
        self.demands.append(demand)
        return super().decide(principal, demand)


class Doors:
    """One catalog with the table ns.t, and what every face demands of it."""

    def __init__(self, lake: lakes.Lake) -> None:
        self.lake = lake
        self.recorder = Recorder()
        self.access = access.Access(
            store=lake.store, authoriser=self.recorder, region=REGION, account_id=lakes.ACCOUNT
        )
        self.guard = guard.TableGuard(store=lake.store, region=REGION, account_id=lakes.ACCOUNT)
        self.pointer = lake.tables.pointer(lake.ident("ns.t"))

    def rest(self, name: str, **parameters: Any) -> list[model.Demand]:
        (row,) = (row for row in rows.ROWS if row.name == name)
        service = SimpleNamespace(
            access=self.access,
            table_bucket=lambda call: "lake",
            warehouse_name=lambda text: "lake",
            ident=lambda call: self.lake.ident("ns.t"),
        )
        value = SimpleNamespace(namespace=("ns",), name="t", query={})
        return list(row.operation.demands(service, SimpleNamespace(value=value)))  # type: ignore[arg-type]

    def s3tables(self, operation: str, /, **members: str) -> list[model.Demand]:
        resources = Resources(
            buckets=self.lake.storage.buckets,
            namespaces=self.lake.namespaces,
            tables=self.lake.tables,
            labels=Labels(index=self.lake.storage.index, buckets=self.lake.storage.buckets),
            index=self.lake.storage.index,
            authoriser=self.recorder,
            access=self.access,
            sweep=sweeping.TableSweep(store=self.lake.store, files=None),
            referrers=referrers.Referrers(store=self.lake.store, files=None),
            access_logs=lakes.access_logs_of(self.lake, self.recorder),
            region=REGION,
            account_id=lakes.ACCOUNT,
        )
        call = SimpleNamespace(value=SimpleNamespace(members=members))
        return list(s3tables_face.ROWS[operation].demands(resources, call))  # type: ignore[arg-type]

    def s3(self, name: str, key: str) -> list[model.Demand]:
        (row,) = (row for row in s3_rows.ROWS if row.operation.name == name)
        value = SimpleNamespace(
            bucket="lake",
            key=key,
            read=SimpleNamespace(version_id=None),
            written=SimpleNamespace(tags={}, lock=None, acl=None),
        )
        call = SimpleNamespace(
            value=value,
            context=self.guard,
            caller=SimpleNamespace(principal=lakes.ROOT),
            principal=lakes.ROOT,
        )
        return list(row.operation.demands(None, call))  # type: ignore[arg-type]

    def native(self) -> list[model.Demand]:
        sweep: Any = None
        unused: Any = None
        services = native.TablesServices(
            namespaces=unused,
            tables=self.lake.tables,
            views=unused,
            drops=unused,
            access=self.access,
            sweep=sweep,
            principals=unused,
        )
        call = SimpleNamespace(
            value={"warehouse": "lake"},
            request=SimpleNamespace(pairs=(("table", "ns.t"),)),
            principal=lakes.ROOT,
        )
        return self.recorded(lambda: asyncio.run(native.list_loads(services, call)))  # type: ignore[arg-type]

    def sql(self, *actions: str) -> list[model.Demand]:
        def look_up() -> None:
            resolver = places.Places(store=self.lake.store, access=self.access)
            name = (sql_names.Ident(text="t", quoted=True),)
            with resolver.view(lakes.ROOT) as view:
                view.table(name, database="lake", schema="ns", exactly=True, actions=actions)

        return self.recorded(look_up)

    def foreign_file(self) -> list[model.Demand]:
        """What a reader of another table needs to read a file of this one."""
        loaded = self.lake.load(self.lake.ident("ns.other"))
        reader = readers.Readers(store=self.lake.store, access=self.access).of(lakes.ROOT, loaded)
        return self.recorded(lambda: reader.file(f"{self.pointer.location}/data/f.parquet"))

    def recorded(self, work: Any) -> list[model.Demand]:
        self.recorder.demands.clear()
        work()
        return list(self.recorder.demands)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with lakes.opened(tmp_path_factory.mktemp("rights") / "data") as lake:

        async def fill() -> None:
            await lake.namespaces.create("lake", ("ns",), by=lakes.BY)
            for dotted in ("ns.t", "ns.other"):
                await lake.tables.create(lake.ident(dotted), schema=lakes.SCHEMA, by=lakes.BY)

        asyncio.run(fill())
        yield Doors(lake)


def keys_of(demands: list[model.Demand], action: str) -> tuple[str, dict[str, Any]]:
    """The resource and condition keys of the one demand for an action."""
    (demand,) = (demand for demand in demands if demand.action == f"s3tables:{action}")
    return demand.resource, {
        name: value for name, value in demand.context.items() if name.partition(":")[0] != "s3"
    }


@pytest.mark.parametrize("action", ["GetTable", "GetTableData", "PutTableData", "DeleteTable"])
def test_a_table_makes_the_same_demand_at_every_door(doors: Doors, action: str) -> None:
    table = {"tableBucketARN": BUCKET_ARN, "namespace": "ns", "name": "t"}
    arn = f"{BUCKET_ARN}/table/{doors.pointer.object_uuid}"
    key = doors.pointer.location.removeprefix("s3://lake/") + "/data/f.parquet"
    ident = doors.lake.ident("ns.t")
    commit = list(doors.access.on_commit(ident, creates=False)[0])
    by_door = {
        "GetTable": {
            "rest": doors.rest("loadTable"),
            "s3tables": doors.s3tables("GetTable", **table),
            "s3tables, by ARN": doors.s3tables("GetTable", tableArn=arn),
            "native": doors.native(),
            "sql": doors.sql(*rights.READ_ACTIONS),
        },
        "GetTableData": {
            "rest": doors.rest("loadCredentials"),
            "rest, commit": commit,
            "s3tables": doors.s3tables("UpdateTableMetadataLocation", **table),
            "s3": doors.s3("GetObject", key),
            "sql": doors.sql(*rights.READ_ACTIONS),
            "a file that another table names": doors.foreign_file(),
        },
        "PutTableData": {
            "rest, commit": commit,
            "s3tables": doors.s3tables("UpdateTableMetadataLocation", **table),
            "s3": doors.s3("PutObject", key),
            "sql": doors.sql(*rights.COMMIT_ACTIONS),
        },
        "DeleteTable": {
            "rest": doors.rest("dropTable"),
            "s3tables": doors.s3tables("DeleteTable", **table),
            "sql": doors.sql(*rights.DROP_ACTIONS),
        },
    }[action]
    assert {door: keys_of(demands, action) for door, demands in by_door.items()} == dict.fromkeys(
        by_door, (arn, AT_TABLE)
    )


def test_a_namespace_and_a_bucket_make_the_same_demand_at_every_door(doors: Doors) -> None:
    here = {"tableBucketARN": BUCKET_ARN}
    named = contexts.Contexts(
        buckets=doors.lake.storage.buckets,
        namespaces=doors.lake.namespaces,
        access=doors.access,
        default_database="lake",
    )
    namespaces = {
        "rest": doors.rest("loadNamespaceMetadata"),
        "s3tables": doors.s3tables("GetNamespace", **here, namespace="ns"),
        "sql": doors.recorded(lambda: named.resolve(lakes.ROOT, "lake", "ns")),
    }
    assert {door: keys_of(demands, "GetNamespace") for door, demands in namespaces.items()} == (
        dict.fromkeys(namespaces, (BUCKET_ARN, AT_NAMESPACE))
    )
    buckets = {
        "rest": doors.rest("getConfig"),
        "s3tables": doors.s3tables("GetTableBucket", **here),
        "sql": doors.recorded(lambda: named.resolve(lakes.ROOT, "lake", "none")),
    }
    assert {door: keys_of(demands, "GetTableBucket") for door, demands in buckets.items()} == (
        dict.fromkeys(buckets, (BUCKET_ARN, AT_BUCKET))
    )


@pytest.mark.parametrize("owner", [lakes.ACCOUNT, ""])
def test_a_judge_demands_what_was_demanded_before_the_write_was_planned(
    doors: Doors, owner: str
) -> None:
    place = doors.lake.tables.place(doors.lake.ident("ns.t"))
    place = records.Place(bucket=dataclasses.replace(place.bucket, owner=owner))
    ident = doors.lake.ident("ns.t")
    judge = doors.access.judge(lakes.ROOT, ("DeleteTable",))
    judged = doors.recorded(lambda: judge(place, ident, doors.pointer))
    assert judged == list(doors.access.on_table(ident, ("DeleteTable",)))


@pytest.mark.parametrize(
    ("uri", "resource"),
    [
        ("s3://plain/a/b", "arn:aws:s3:::plain/a/b"),
        ("s3a://plain/a/b", "arn:aws:s3:::plain/a/b"),
        ("s3n://plain//a//b", "arn:aws:s3:::plain//a//b"),
        ("plain/a/b", "arn:aws:s3:::plain/a/b"),
        # Other schemes name no bucket: no right on one opens them.
        ("gs://plain/a/b", "arn:aws:s3:::gs://plain/a/b"),
        ("file:///plain/a", "arn:aws:s3:::file:///plain/a"),
    ],
)
def test_a_file_is_the_object_that_its_uri_names(doors: Doors, uri: str, resource: str) -> None:
    (demand,) = doors.access.on_file(lakes.ROOT, uri)
    assert (demand.action, demand.resource) == ("s3:GetObject", resource)


@pytest.mark.parametrize(
    ("uri", "readings"),
    [
        ("s3://plain/a//b", ["plain/a//b"]),
        ("s3://plain/a/./b", ["plain/a/./b", "plain/a/b"]),
        ("s3://plain/a/../c//d", ["plain/a/../c//d", "plain/c/d"]),
        ("s3://plain/../other/k", ["plain/../other/k", "other/k"]),
    ],
)
def test_a_file_with_dots_needs_the_right_to_each_reading_of_its_name(
    doors: Doors, uri: str, readings: list[str]
) -> None:
    table = doors.lake.ident("ns.t")
    demands = doors.recorded(lambda: doors.access.check_file(lakes.ROOT, uri, table=table))
    assert [demand.resource for demand in demands] == [f"arn:aws:s3:::{each}" for each in readings]


def test_tags_that_a_buckets_policy_asks_for_bind_the_files_that_a_table_names(
    lake: lakes.Lake,
) -> None:
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    user = principals.Principals(
        account=lakes.ACCOUNT,
        root=rootkeys.RootKeys(access_key="AKROOT", secret_key="a root's", created=True),
        users=(
            config.User(
                name="u",
                access_key="AKUSER",
                secret_key="a user's secret",
                policies=({"Version": "2012-10-17", "Statement": [statement]},),
            ),
        ),
    ).by_access_key("AKUSER")
    deny = {
        **statement,
        "Effect": "Deny",
        "Principal": "*",
        "Condition": {"StringEquals": {"s3:ExistingObjectTag/secret": "yes"}},
    }
    storage = lake.storage
    lake.run(
        storage.buckets.create(
            "plain",
            bucket_type="general",
            owner=lakes.ACCOUNT,
            region=REGION,
            settings={ownership.POLICY: json.dumps({"Statement": [deny]})},
        )
    )
    for key, tags in (("open", {}), ("secret", {"secret": "yes"})):
        received = storage_model.Received(
            body=storage_model.InlineBody(data=b"x"),
            size_bytes=1,
            digests=checksums.digest(b"x", (checksums.MD5,)),
        )
        attributes = storage_model.ObjectAttributes(tags=tags)
        lake.run(storage.objects.put("plain", key, received, attributes=attributes))
    checks = access.Access(
        store=lake.store,
        authoriser=decide.Authoriser(
            now_ms=lambda: lakes.NOW_MS,
            resource_sides=ownership.Ownership(
                buckets=storage.buckets, objects=storage.objects, index=storage.index
            ).side_of,
        ),
        region=REGION,
        account_id=lakes.ACCOUNT,
    )
    table = lake.ident("ns.t")
    checks.check_file(user.principal, "s3://plain/open", table=table)
    with pytest.raises(errors.ForeignFileRefused):
        checks.check_file(user.principal, "s3://plain/secret", table=table)


def test_operations_that_only_read_demand_nothing_that_would_be_recorded(doors: Doors) -> None:
    demands = [
        *[each for row in rows.ROWS if row.operation.only_reads for each in doors.rest(row.name)],
        *[
            each
            for row in s3_rows.ROWS
            if row.operation.only_reads
            for key in ("k", f"{doors.pointer.location.removeprefix('s3://lake/')}/data/f.parquet")
            for each in doors.s3(row.name, key)
        ],
    ]
    assert {demand.action for demand in demands} >= {"s3tables:GetTable", "s3tables:GetTableData"}
    assert [demand for demand in demands if decide.is_write(demand.action)] == []
