"""The catalog as PyIceberg uses it: nothing configured but uri, warehouse and credential."""

from __future__ import annotations

import itertools
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg import exceptions, types
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from tests.kit import server as server_kit
from tests.kit.server import Running

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


def connect(server: Running, **more: str) -> Catalog:
    return load_catalog(
        "lake",
        type="rest",
        uri=server.iceberg,
        warehouse="lake",
        credential=f"{server.access_key}:{server.secret_key}",
        **more,
    )


@pytest.fixture(scope="module")
def catalog(server: Running) -> Catalog:
    return connect(server)


@pytest.fixture
def namespace(catalog: Catalog) -> str:
    name = f"py_{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(name)
    return name


def rows(table: Any, **filters: Any) -> list[dict[str, Any]]:
    unsorted: list[dict[str, Any]] = table.scan(**filters).to_arrow().to_pylist()
    return sorted(unsorted, key=lambda row: row["id"])


def test_pyiceberg_creates_appends_evolves_deletes_and_scans(
    catalog: Catalog, namespace: str
) -> None:
    table = catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    table.append(ROWS)
    with table.update_schema() as update:
        update.add_column("size", types.IntegerType())
    more = pa.table(
        {
            "id": pa.array([4], pa.int64()),
            "name": ["d"],
            "size": pa.array([7], pa.int32()),
        }
    )
    table.append(more)
    table.delete("id = 2")
    again = catalog.load_table(f"{namespace}.t")
    assert rows(again) == [
        {"id": 1, "name": "a", "size": None},
        {"id": 3, "name": "c", "size": None},
        {"id": 4, "name": "d", "size": 7},
    ]
    assert [row["id"] for row in rows(again, row_filter="size = 7")] == [4]
    first = again.history()[0].snapshot_id
    assert [row["id"] for row in rows(again, snapshot_id=first)] == [1, 2, 3]
    parents = [each.parent_snapshot_id for each in again.snapshots()]
    assert parents == [None, *(each.snapshot_id for each in again.snapshots()[:-1])]


def test_pyiceberg_overwrites_and_upserts_a_partitioned_table(
    catalog: Catalog, namespace: str
) -> None:
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=False),
        types.NestedField(2, "name", types.StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    table = catalog.create_table(f"{namespace}.t", schema=schema, partition_spec=spec)
    table.append(ROWS)
    table.overwrite(
        pa.table({"id": pa.array([9], pa.int64()), "name": ["a"]}), overwrite_filter="name = 'a'"
    )
    assert [(row["id"], row["name"]) for row in rows(table)] == [(2, "b"), (3, "c"), (9, "a")]
    table.upsert(pa.table({"id": pa.array([2, 5], pa.int64()), "name": ["B", "e"]}), ["id"])
    assert [(row["id"], row["name"]) for row in rows(table)] == [
        (2, "B"), (3, "c"), (5, "e"), (9, "a"),
    ]  # fmt: skip


def test_pyiceberg_creates_a_table_with_its_first_rows_in_one_transaction(
    catalog: Catalog, namespace: str
) -> None:
    with catalog.create_table_transaction(f"{namespace}.t", schema=ROWS.schema) as transaction:
        transaction.append(ROWS)
        assert not catalog.table_exists(f"{namespace}.t")
    assert len(rows(catalog.load_table(f"{namespace}.t"))) == 3


def test_pyiceberg_keeps_branches_and_tags(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot.snapshot_id, "v1").commit()
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "dev").commit()
    table.append(ROWS, branch="dev")
    again = catalog.load_table(f"{namespace}.t")
    assert set(again.refs()) == {"main", "v1", "dev"}
    assert len(rows(again)) == 3
    assert len(again.scan().use_ref("dev").to_arrow()) == 6
    assert len(again.scan().use_ref("v1").to_arrow()) == 3


def test_pyiceberg_lists_renames_registers_and_drops(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    table.append(ROWS)
    catalog.rename_table(f"{namespace}.t", f"{namespace}.u")
    assert catalog.list_tables(namespace) == [(namespace, "u")]
    assert catalog.list_views(namespace) == []
    with pytest.raises(exceptions.NoSuchNamespaceError):
        catalog.list_views(f"{namespace}_none")
    location = catalog.load_table(f"{namespace}.u").metadata_location
    catalog.drop_table(f"{namespace}.u")
    with pytest.raises(exceptions.NoSuchTableError):
        catalog.load_table(f"{namespace}.u")
    registered = catalog.register_table(f"{namespace}.back", location)
    assert len(rows(registered)) == 3
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    catalog.purge_table(f"{namespace}.back")
    catalog.drop_namespace(namespace)
    assert not catalog.namespace_exists(namespace)


def test_pyiceberg_makes_lists_loads_and_drops_views(catalog: Catalog, namespace: str) -> None:
    schema = Schema(types.NestedField(1, "id", types.LongType(), required=False))
    version = ViewVersion(
        version_id=1,
        schema_id=0,
        timestamp_ms=1_800_000_000_000,
        summary={"engine-name": "test"},
        representations=[
            ViewRepresentation(root=SQLViewRepresentation(type="sql", sql="select 1", dialect="x"))
        ],
        default_namespace=(namespace,),
    )
    name = f"{namespace}.v"
    created = catalog.create_view(name, schema, version, properties={"owner": "ana"})
    assert created.metadata.properties == {"owner": "ana"}
    assert catalog.list_views(namespace) == [(namespace, "v")]
    assert catalog.list_tables(namespace) == []
    assert catalog.view_exists(name)
    loaded = catalog.load_view(name)
    assert loaded.metadata == created.metadata
    assert loaded.metadata.versions[0].representations[0].root.sql == "select 1"
    with pytest.raises(exceptions.ViewAlreadyExistsError):
        catalog.create_view(name, schema, version)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.create_table(name, schema=schema)
    with pytest.raises(exceptions.NamespaceNotEmptyError):
        catalog.drop_namespace(namespace)
    catalog.drop_view(name)
    assert not catalog.view_exists(name)
    with pytest.raises(exceptions.NoSuchViewError):
        catalog.drop_view(name)
    catalog.drop_namespace(namespace)


def test_pyiceberg_sees_the_catalogs_errors_by_their_types(
    catalog: Catalog, namespace: str
) -> None:
    catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    with pytest.raises(exceptions.NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    with pytest.raises(exceptions.NoSuchNamespaceError):
        catalog.create_table("nowhere.t", schema=ROWS.schema)


def test_of_two_pyiceberg_writers_the_later_one_gets_409_and_retries(
    catalog: Catalog, namespace: str
) -> None:
    table = catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    stale = catalog.load_table(f"{namespace}.t")
    table.append(ROWS)
    stale.append(ROWS)
    assert len(rows(catalog.load_table(f"{namespace}.t"))) == 6
    stubborn = catalog.create_table(
        f"{namespace}.u", schema=ROWS.schema, properties={"commit.retry.num-retries": "0"}
    )
    stale = catalog.load_table(f"{namespace}.u")
    stubborn.append(ROWS)
    with pytest.raises(exceptions.CommitFailedException, match=r"main was created concurrently"):
        stale.append(ROWS)
    assert len(rows(catalog.load_table(f"{namespace}.u"))) == 3


def test_pyiceberg_has_namespaces_of_several_levels_with_properties(
    catalog: Catalog, namespace: str
) -> None:
    catalog.create_namespace((namespace, "eu.west"), {"owner": "me"})
    assert catalog.list_namespaces(namespace) == [(namespace, "eu.west")]
    properties = catalog.load_namespace_properties((namespace, "eu.west"))
    assert properties == {"owner": "me", "location": f"s3://lake/{namespace}.eu%2Ewest"}
    catalog.update_namespace_properties((namespace, "eu.west"), {"owner"}, {"team": "x"})
    assert "team" in catalog.load_namespace_properties((namespace, "eu.west"))
    table = catalog.create_table((namespace, "eu.west", "t"), schema=ROWS.schema)
    table.append(ROWS)
    assert len(rows(catalog.load_table((namespace, "eu.west", "t")))) == 3


def test_pyiceberg_separates_levels_by_the_character_that_the_server_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = requests.Session.send

    def recording(session: requests.Session, request: Any, **more: Any) -> requests.Response:
        sent.append(request.url)
        return send(session, request, **more)

    running = server_kit.start(tmp_path / "data", "--namespace-separator", "~")
    try:
        monkeypatch.setattr(requests.Session, "send", recording)
        separated = connect(running)
        separated.create_namespace("north")
        separated.create_namespace(("north", "eu.west"))
        assert separated.list_namespaces("north") == [("north", "eu.west")]
        table = separated.create_table(("north", "eu.west", "t"), schema=ROWS.schema)
        table.append(ROWS)
        assert len(rows(separated.load_table(("north", "eu.west", "t")))) == 3
        separated.drop_table(("north", "eu.west", "t"))
        separated.drop_namespace(("north", "eu.west"))
    finally:
        running.stop()
    assert any("/namespaces/north~eu.west/tables" in url for url in sent)
    assert not any("%1F" in url or "\x1f" in url for url in sent)


@pytest.mark.parametrize("path", ["/iceberg", ""])
def test_pyiceberg_signs_with_sigv4_instead_of_a_token(
    server: Running, namespace: str, path: str
) -> None:
    signed = load_catalog(
        "lake",
        type="rest",
        uri=server.url + path,
        warehouse="lake",
        **{
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3tables",
            "rest.signing-region": "us-east-1",
            "client.access-key-id": server.access_key,
            "client.secret-access-key": server.secret_key,
            "client.region": "us-east-1",
        },
    )
    table = signed.create_table((namespace, "t x"), schema=ROWS.schema)
    table.append(ROWS)
    assert len(rows(signed.load_table((namespace, "t x")))) == 3


@pytest.mark.parametrize("slash", ["", "/"])
def test_pyiceberg_reaches_the_catalog_by_the_servers_address_alone(
    server: Running, namespace: str, slash: str
) -> None:
    catalog = load_catalog(
        "lake",
        type="rest",
        uri=server.url + slash,
        warehouse="lake",
        credential=f"{server.access_key}:{server.secret_key}",
        **{"header.X-Iceberg-Access-Delegation": "vended-credentials"},
    )
    table = catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    table.append(ROWS)
    assert len(rows(catalog.load_table(f"{namespace}.t"))) == 3
    with pytest.raises(exceptions.NoSuchTableError, match="Table does not exist"):
        catalog.load_table(f"{namespace}.absent")


@pytest.mark.parametrize(
    ("path", "has_token_uri"),
    [
        *itertools.product(("/iceberg/v1", "/v1", "/iceberg/v1/lake"), (True, False)),
        ("/api/catalog", True),
    ],
)
def test_the_error_of_a_wrong_uri_names_the_catalogs_address(
    server: Running, path: str, has_token_uri: bool
) -> None:
    more = {"oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens"} if has_token_uri else {}
    with pytest.raises(Exception, match="/iceberg") as caught:
        load_catalog(
            "lake",
            type="rest",
            uri=server.url + path,
            warehouse="lake",
            credential=f"{server.access_key}:{server.secret_key}",
            **more,
        )
    hints = (f"URI of this catalog is {server.iceberg}", "REST catalog is at /iceberg")
    assert any(hint in str(caught.value) for hint in hints)


def test_a_bad_write_is_refused_with_its_reason(
    catalog: Catalog, server: Running, namespace: str
) -> None:
    table = catalog.create_table(f"{namespace}.t", schema=ROWS.schema)
    with (
        pytest.raises(OSError, match=r"(?i)access.?denied|layout"),
        table.io.new_output(f"{table.location()}/data/notes.txt").create() as output,
    ):
        output.write(b"hello")
    table.append(ROWS)
    (file,) = table.inspect.data_files().to_pylist()
    with (
        pytest.raises(OSError, match=r"(?i)access.?denied|write-once"),
        table.io.new_output(file["file_path"]).create(overwrite=True) as output,
    ):
        output.write(b"other bytes")
    assert len(rows(table)) == 3


def test_pyiceberg_lets_the_catalog_plan_its_scans(
    server: Running, catalog: Catalog, namespace: str
) -> None:
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=False),
        types.NestedField(2, "name", types.StringType(), required=False),
    )
    spec = PartitionSpec(
        PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="name")
    )
    table = catalog.create_table(f"{namespace}.planned", schema=schema, partition_spec=spec)
    table.append(ROWS)
    table.append(pa.table({"id": pa.array([4, 5], pa.int64()), "name": ["a", "d"]}))
    table.delete("id = 3")
    planning = connect(server, **{"scan-planning-mode": "server"})
    assert planning.supports_server_side_planning()
    by_catalog = planning.load_table(f"{namespace}.planned")
    by_client = catalog.load_table(f"{namespace}.planned")
    for row_filter in (
        "True",
        "id > 1",
        "name = 'a'",
        "name is null or id in (1, 2)",
        "not id = 4",
    ):
        plans = [
            {task.file.file_path: str(task.residual) for task in each.scan(row_filter).plan_files()}
            for each in (by_catalog, by_client)
        ]
        if row_filter == "not id = 4":  # PyIceberg skips no file by the bounds of an inequality
            (skipped,) = plans[1].keys() - plans[0].keys()
            del plans[1][skipped]
        assert plans[0] == plans[1]
        assert rows(by_catalog, row_filter=row_filter) == rows(by_client, row_filter=row_filter)
    first = by_client.history()[0].snapshot_id
    assert [row["id"] for row in rows(by_catalog, snapshot_id=first)] == [1, 2, 3]
