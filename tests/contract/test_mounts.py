"""Other catalogs and tables as read-only databases: a second Boathouse, and files of PyIceberg."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from pyiceberg import catalog, expressions, table
from pyiceberg.catalog import noop

from sql import shell
from tests.kit import lake_client
from tests.kit import server as server_kit

NUMBERS = pa.table(
    {"id": pa.array(range(1000), pa.int64()), "word": [f"w{n % 7}" for n in range(1000)]}
)


class FolderCatalog(noop.NoopCatalog, catalog.MetastoreCatalog):  # type: ignore[misc]
    """A catalog of one table below a folder: PyIceberg writes all its files."""

    def create_table(self, identifier: Any, schema: Any, **_: Any) -> table.Table:
        staged = self._create_staged_table(identifier, schema)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        return table.Table(
            identifier=("plain", "words"),
            metadata=staged.metadata,
            metadata_location=staged.metadata_location,
            io=staged.io,
            catalog=self,
        )

    def _get_default_warehouse_location(self, database_name: str, table_name: str) -> str:
        return f"{self.properties['warehouse']}/{database_name}/{table_name}"

    def commit_table(self, current: Any, requirements: Any, updates: Any) -> Any:
        staged = self._update_and_stage_table(
            current, current.name(), tuple(requirements), tuple(updates)
        )
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        return table.CommitTableResponse(
            metadata=staged.metadata, metadata_location=staged.metadata_location
        )


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_kit.Running]:
    """The server whose catalog is mounted, with one table in two files and one deleted row."""
    running = server_kit.start(tmp_path_factory.mktemp("other") / "data")
    try:
        lake = lake_client.catalog(running)
        lake.create_namespace("sales")
        numbers = lake.create_table("sales.numbers", schema=NUMBERS.schema)
        numbers.append(NUMBERS.slice(0, 600))
        numbers.append(NUMBERS.slice(600))
        make_views(running)
        yield running
    finally:
        running.stop()


def make_views(other: server_kit.Running) -> None:
    """Make views of the other server: by its SQL, and as other engines and clients write them."""
    with lake_client.session(other, "sales") as session:
        session.answer("create view evens as select id, word from numbers where id % 2 = 0")
        session.answer("create view few comment = 'some' as select id from lake.sales.evens "
                       "where id < 5")  # fmt: skip
    client = lake_client.catalog(other)._session  # type: ignore[attr-defined]
    field = {"id": 1, "name": "id", "required": False, "type": "long"}
    for name, dialect, text, database in (
        ("of_spark", "spark", "select id from numbers", "lake"),
        ("of_private", "snowflake", "select id from private.secret.ids", "lake"),
        ("of_default", "snowflake", "select id from ids", "private"),
    ):
        answer = client.post(
            f"{other.iceberg}/v1/lake/namespaces/sales/views",
            json={
                "name": name,
                "schema": {"type": "struct", "schema-id": 0, "fields": [field]},
                "view-version": {
                    "version-id": 1,
                    "schema-id": 0,
                    "timestamp-ms": 1,
                    "summary": {},
                    "default-catalog": database,
                    "default-namespace": ["sales"],
                    "representations": [{"type": "sql", "sql": text, "dialect": dialect}],
                },
                "properties": {},
            },
        )
        assert answer.status_code == 200, answer.text


def configuration(other: server_kit.Running, folder: Path, tables: dict[str, str]) -> str:
    listed = "\n".join(f'"{name}" = "{location}"' for name, location in tables.items())
    return f"""
[[mounts]]
name = "elsewhere"
uri = "{other.iceberg}"
warehouse = "lake"
credential = "{other.access_key}:{other.secret_key}"
refresh_seconds = 0
timeout_seconds = 3

[[mounts]]
name = "far-away"
uri = "http://127.0.0.1:9/iceberg"
token = "a token that no answer may show"
timeout_seconds = 2

[[mounts]]
name = "folder"
folder = "{folder}"
[mounts.tables]
{listed}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder in which PyIceberg wrote a table, and the location of its metadata."""
    folder = tmp_path_factory.mktemp("folder")
    words = FolderCatalog("local", warehouse=f"file://{folder}").create_table(
        "plain.words", schema=NUMBERS.schema
    )
    words.append(NUMBERS.slice(0, 10))
    outside = tmp_path_factory.mktemp("outside") / "secret.metadata.json"
    outside.write_text(Path(words.metadata_location.removeprefix("file://")).read_text())
    return folder, {"plain.words": words.metadata_location, "plain.outside": f"file://{outside}"}


@pytest.fixture(scope="module")
def mounting(
    other: server_kit.Running,
    written: tuple[Path, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[server_kit.Running]:
    folder = tmp_path_factory.mktemp("mounting")
    (folder / "mini.toml").write_text(configuration(other, *written))
    running = server_kit.start(folder / "data", "--config", str(folder / "mini.toml"))
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def sql(mounting: server_kit.Running) -> Iterator[lake_client.Session]:
    with lake_client.session(mounting) as session:
        yield session


def test_select_from_a_mounted_catalog_returns_the_rows_of_the_other_server(
    sql: lake_client.Session,
) -> None:
    assert sql.rows("select count(*), sum(id), max(word) from elsewhere.sales.numbers") == [
        (1000, 499_500, "w6")
    ]
    assert sql.rows("select word from elsewhere.sales.numbers where id = 601") == [("w6",)]


def test_select_joins_a_mount_with_a_table_of_the_lake_and_ctas_copies_it(
    sql: lake_client.Session,
) -> None:
    sql.answer("create schema lake.joined")
    sql.answer("create table lake.joined.copied as select * from elsewhere.sales.numbers")
    joined = "select count(*) from lake.joined.copied c join elsewhere.sales.numbers n using (id)"
    assert sql.rows(joined) == [(1000,)]


def test_select_after_a_commit_to_the_other_server_reads_its_new_rows_and_its_history(
    other: server_kit.Running, sql: lake_client.Session
) -> None:
    changing = lake_client.catalog(other).create_table("sales.changing", schema=NUMBERS.schema)
    changing.append(NUMBERS)
    assert sql.rows("select count(*) from elsewhere.sales.changing") == [(1000,)]
    first = changing.current_snapshot().snapshot_id
    changing.delete(expressions.LessThan("id", 100))
    assert sql.rows("select count(*) from elsewhere.sales.changing") == [(900,)]
    then = f"select count(*) from elsewhere.sales.changing at(version => {first})"
    assert sql.rows(then) == [(1000,)]


def test_select_from_a_table_in_a_mounted_folder_reads_what_pyiceberg_wrote(
    sql: lake_client.Session,
) -> None:
    assert sql.rows("select sum(id) from folder.plain.words") == [(45,)]


def test_select_from_a_table_outside_the_mounted_folder_is_refused(
    sql: lake_client.Session,
) -> None:
    with pytest.raises(shell.ShellError, match="Failed to open input stream for file"):
        sql.rows("select sum(id) from folder.plain.outside")


@pytest.mark.parametrize(
    "statement",
    [
        "insert into elsewhere.sales.numbers values (1, 'x')",
        "delete from elsewhere.sales.numbers",
        "update elsewhere.sales.numbers set word = 'x'",
        "truncate table elsewhere.sales.numbers",
        "drop table elsewhere.sales.numbers",
        "alter table elsewhere.sales.numbers add column more int",
        "create table elsewhere.sales.more (a int)",
        "create or replace table elsewhere.sales.numbers (a int)",
        "create schema elsewhere.more",
        "drop schema elsewhere.sales",
        "create view elsewhere.sales.seen as select 1 as a",
        "alter table elsewhere.sales.numbers rename to elsewhere.sales.others",
        "drop database elsewhere",
        "create sequence elsewhere.sales.counter",
    ],
)
def test_a_write_to_a_mount_is_refused_with_its_name_and_changes_nothing(
    other: server_kit.Running, sql: lake_client.Session, statement: str
) -> None:
    with pytest.raises(shell.ShellError, match="elsewhere is a mount of another catalog"):
        sql.answer(statement)
    lake = lake_client.catalog(other)
    assert len(lake.load_table("sales.numbers").scan().to_arrow()) == 1000
    assert sql.rows("select count(*) from elsewhere.sales.numbers") == [(1000,)]


def test_a_mount_that_does_not_answer_gives_an_error_with_its_name_and_no_secret(
    mounting: server_kit.Running, sql: lake_client.Session
) -> None:
    with pytest.raises(shell.ShellError, match="The mount far-away is not available") as refused:
        sql.rows("select * from far_away.any.thing")
    assert "a token" not in str(refused.value)
    assert sql.rows("select 1") == [(1,)]
    assert "a token" not in mounting.log.read_text()


def test_show_lists_mounts_with_their_schemas_and_tables(sql: lake_client.Session) -> None:
    databases = [row[1] for row in sql.rows("show databases")]
    assert {"far_away", "elsewhere", "folder", "lake"} <= {name.lower() for name in databases}
    schemas = [row[1].lower() for row in sql.rows("show schemas in database elsewhere")]
    assert "sales" in schemas
    tables = [row[1].lower() for row in sql.rows("show tables in schema elsewhere.sales")]
    assert "numbers" in tables
    described = sql.rows("describe table elsewhere.sales.numbers")
    assert [row[0].lower() for row in described] == ["id", "word"]
    counted = "select row_count from elsewhere.information_schema.tables"
    assert sql.rows(f"{counted} where table_name ilike 'numbers'") == [(1000,)]
    assert json.dumps(databases).count("elsewhere") + json.dumps(databases).count("ELSEWHERE") == 1


def test_clone_of_a_mounted_table_copies_its_rows_into_files_of_its_own(
    mounting: server_kit.Running, sql: lake_client.Session
) -> None:
    sql.answer("create schema lake.cloned")
    sql.answer("create table lake.cloned.numbers clone elsewhere.sales.numbers")
    assert sql.rows("select count(*), sum(id) from lake.cloned.numbers") == [(1000, 499_500)]
    cloned = lake_client.catalog(mounting).load_table("cloned.numbers")
    assert len(cloned.scan().to_arrow()) == 1000


def mounted_catalog(
    mounting: server_kit.Running, name: str = "elsewhere", **more: str
) -> catalog.Catalog:
    return catalog.load_catalog(
        name,
        type="rest",
        uri=mounting.iceberg,
        warehouse=name,
        credential=f"{mounting.access_key}:{mounting.secret_key}",
        **more,
    )


def test_a_client_of_the_catalog_lists_and_reads_a_mount_with_its_own_keys(
    mounting: server_kit.Running, other: server_kit.Running
) -> None:
    keys = {"s3.access-key-id": other.access_key, "s3.secret-access-key": other.secret_key}
    lake = mounted_catalog(mounting, **keys)
    assert lake.list_namespaces() == [("sales",)]
    assert ("sales", "numbers") in lake.list_tables("sales")
    loaded = lake.load_table("sales.numbers")
    assert loaded.metadata_location.startswith("s3://lake/")
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == list(range(1000))


def test_load_table_of_a_mount_has_neither_the_mounts_keys_nor_keys_of_this_server(
    mounting: server_kit.Running, other: server_kit.Running
) -> None:
    session = mounted_catalog(mounting)._session  # type: ignore[attr-defined]
    path = f"{mounting.iceberg}/v1/elsewhere/namespaces/sales/tables/numbers"
    answer = session.get(path, headers={"X-Iceberg-Access-Delegation": "vended-credentials"})
    assert answer.status_code == 200
    assert answer.json()["config"] == {
        "s3.endpoint": other.url, "s3.region": "us-east-1", "client.region": "us-east-1",
    }  # fmt: skip
    assert "storage-credentials" not in answer.json() or not answer.json()["storage-credentials"]
    assert other.secret_key not in answer.text
    signing = {"method": "GET", "region": "us-east-1", "headers": {}}
    uri = f"{mounting.url}/lake/sales/numbers/data/x.parquet"
    signed = session.post(f"{path}/sign", json={**signing, "uri": uri})
    assert signed.status_code == 403
    assert "table of a mount" in signed.text
    assert "secret" not in session.get(f"{path}/credentials").text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "namespaces", {"namespace": ["more"]}),
        ("DELETE", "namespaces/sales", None),
        ("POST", "namespaces/sales/properties", {"updates": {"a": "b"}}),
        ("DELETE", "namespaces/sales/tables/numbers", None),
        (
            "POST",
            "namespaces/sales/tables",
            {"name": "t", "schema": {"type": "struct", "fields": []}},
        ),
        (
            "POST",
            "namespaces/sales/tables/numbers",
            {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]},
        ),
        (
            "POST",
            "tables/rename",
            {
                "source": {"namespace": ["sales"], "name": "numbers"},
                "destination": {"namespace": ["sales"], "name": "n"},
            },
        ),
        (
            "POST",
            "namespaces/sales/register",
            {"name": "r", "metadata-location": "s3://lake/x/metadata/a.metadata.json"},
        ),
        ("POST", "namespaces/sales/tables/numbers/metrics", {"report-type": "scan-report"}),
    ],
)  # fmt: skip
def test_a_write_through_the_catalog_to_a_mount_is_403_and_names_the_mount(
    mounting: server_kit.Running,
    other: server_kit.Running,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    session = mounted_catalog(mounting)._session  # type: ignore[attr-defined]
    answer = session.request(method, f"{mounting.iceberg}/v1/elsewhere/{path}", json=body)
    assert answer.status_code == 403, answer.text
    assert "elsewhere is a mount of another catalog" in answer.json()["error"]["message"]
    assert lake_client.catalog(other).load_table("sales.numbers").properties.get("a") is None


def test_the_catalog_answers_503_for_a_mount_that_is_away_and_serves_the_rest(
    mounting: server_kit.Running,
) -> None:
    session = mounted_catalog(mounting)._session  # type: ignore[attr-defined]
    answer = session.get(f"{mounting.iceberg}/v1/far-away/namespaces")
    assert answer.status_code == 503
    assert "The mount far-away is not available" in answer.json()["error"]["message"]
    assert session.get(f"{mounting.iceberg}/v1/lake/namespaces").status_code == 200


def test_a_mount_is_no_table_bucket_of_s3tables_and_its_name_cannot_be_taken(
    mounting: server_kit.Running,
) -> None:
    client = boto3.client(
        "s3tables",
        endpoint_url=mounting.url,
        region_name="us-east-1",
        aws_access_key_id=mounting.access_key,
        aws_secret_access_key=mounting.secret_key,
    )
    assert [each["name"] for each in client.list_table_buckets()["tableBuckets"]] == ["lake"]
    with pytest.raises(client.exceptions.ConflictException):
        client.create_table_bucket(name="elsewhere")
    arn = "arn:aws:s3tables:us-east-1:000000000000:bucket/elsewhere"
    with pytest.raises(client.exceptions.NotFoundException):
        client.list_tables(tableBucketARN=arn)


def test_a_view_of_a_mounted_catalog_is_listed_described_and_read(
    sql: lake_client.Session,
) -> None:
    listed = {row[1].lower(): row for row in sql.rows("show views in schema elsewhere.sales")}
    assert set(listed) == {"evens", "few", "of_spark", "of_private", "of_default"}
    assert "some" in listed["few"]
    described = sql.rows("describe view elsewhere.sales.evens")
    assert [(row[0], row[1]) for row in described] == [
        ("ID", "NUMBER(38,0)"), ("WORD", "VARCHAR(16777216)"),
    ]  # fmt: skip
    assert sql.rows("select count(*), max(id), max(word) from elsewhere.sales.evens") == [
        (500, 998, "w6")
    ]
    # A view over a view, whose text names the other catalog's warehouse.
    assert sql.rows("select id from elsewhere.sales.few order by id") == [(0,), (2,), (4,)]


def test_a_name_in_a_view_of_a_mount_is_never_one_of_this_server(
    sql: lake_client.Session,
) -> None:
    sql.answer("create schema if not exists lake.sales")
    sql.answer("create table lake.sales.numbers (id int, word text)")
    assert sql.rows("select count(*) from elsewhere.sales.evens") == [(500,)]
    assert sql.rows("select count(*) from elsewhere.sales.few") == [(3,)]
    for name in ("of_private", "of_default"):
        with pytest.raises(shell.ShellError, match=f"(?i){name}, which reads the database"):
            sql.rows(f"select * from elsewhere.sales.{name}")


def test_a_view_of_another_engine_is_refused_in_a_mount_as_in_a_table_bucket(
    sql: lake_client.Session,
) -> None:
    with pytest.raises(shell.ShellError, match="whose query is of the dialect 'spark'"):
        sql.rows("select * from elsewhere.sales.of_spark")


@pytest.mark.parametrize(
    "statement",
    [
        "drop view elsewhere.sales.evens",
        "alter view elsewhere.sales.evens rename to elsewhere.sales.odds",
        "create or replace view elsewhere.sales.evens as select 1 as a",
    ],
)
def test_a_change_of_a_view_of_a_mount_is_refused(sql: lake_client.Session, statement: str) -> None:
    with pytest.raises(shell.ShellError, match="elsewhere is a mount of another catalog"):
        sql.answer(statement)
    assert sql.rows("select count(*) from elsewhere.sales.evens") == [(500,)]


def test_a_client_of_the_catalog_lists_and_loads_views_of_a_mount(
    mounting: server_kit.Running, other: server_kit.Running
) -> None:
    assert ("sales", "evens") in mounted_catalog(mounting).list_views("sales")
    session = mounted_catalog(mounting)._session  # type: ignore[attr-defined]
    path = "namespaces/sales/views/evens"
    loaded = session.get(f"{mounting.iceberg}/v1/elsewhere/{path}")
    theirs = lake_client.catalog(other)._session.get(  # type: ignore[attr-defined]
        f"{other.iceberg}/v1/lake/{path}"
    )
    assert (loaded.status_code, theirs.status_code) == (200, 200)
    assert loaded.json()["metadata"] == theirs.json()["metadata"]
    assert loaded.json()["metadata-location"] == theirs.json()["metadata-location"]
    refused = session.delete(f"{mounting.iceberg}/v1/elsewhere/{path}")
    assert refused.status_code == 403
    assert "elsewhere is a mount of another catalog" in refused.json()["error"]["message"]
    absent = session.get(f"{mounting.iceberg}/v1/elsewhere/namespaces/sales/views/none")
    assert absent.status_code == 404


def test_rights_on_a_mount_are_those_on_a_table_bucket_of_its_name(
    mounting: server_kit.Running, sql: lake_client.Session
) -> None:
    for name, schema in (("reader", "sales"), ("stranger", "nothing")):
        sql.answer(f"create user {name} password = 'a long password' default_role = r_{name}")
        sql.answer(f"create role r_{name}")
        sql.answer(f"grant role r_{name} to user {name}")
        if schema == "sales":
            sql.answer(f"grant usage on database elsewhere to role r_{name}")
            sql.answer(f"grant usage on schema elsewhere.sales to role r_{name}")
            sql.answer(f"grant select on all tables in schema elsewhere.sales to role r_{name}")
            sql.answer(f"grant select on view elsewhere.sales.evens to role r_{name}")

    def rows(user: str, text: str) -> list[tuple[Any, ...]]:
        client = shell.Client(url=mounting.url)
        client.login(user=user, password="a long password", database="", schema="")
        try:
            return lake_client.Session(client).rows(text)
        finally:
            client.logout()

    assert rows("reader", "select count(*) from elsewhere.sales.numbers") == [(1000,)]
    with pytest.raises(shell.ShellError, match="002003"):
        rows("stranger", "select count(*) from elsewhere.sales.numbers")
    assert rows("reader", "select count(*) from elsewhere.sales.evens") == [(500,)]
    for view in ("evens", "few"):
        with pytest.raises(shell.ShellError, match=r"00[23]00[13]"):
            rows("stranger", f"select count(*) from elsewhere.sales.{view}")
    with pytest.raises(shell.ShellError, match=r"00[23]00[13]"):
        rows("reader", "select count(*) from elsewhere.sales.few")
    with pytest.raises(shell.ShellError, match="003001"):
        rows("reader", "insert into elsewhere.sales.numbers values (1, 'x')")


def test_embuckets_metastore_config_shows_a_table_bucket_by_signed_requests_and_files(
    other: server_kit.Running,
    written: tuple[Path, dict[str, str]],
    tmp_path: Path,
) -> None:
    folder, tables = written
    (tmp_path / "metastore.yaml").write_text(f"""
# as Embucket's documentation has it
volumes:
  - ident: embucket
    type: s3-tables
    database: demo_lake
    credentials:
      credential_type: access_key
      aws-access-key-id: {other.access_key}
      aws-secret-access-key: {other.secret_key}
    endpoint: {other.iceberg}
    arn: arn:aws:s3tables:us-east-1:000000000000:bucket/lake
  - ident: disk
    type: file
    path: {folder}
  - ident: ram
    type: memory
databases:
  - ident: local
    volume: disk
  - ident: scratch
    volume: ram
schemas:
  - database: scratch
    schema: public
tables:
  - database: local
    schema: plain
    table: words
    metadata_location: {tables["plain.words"]}
""")
    running = server_kit.start(
        tmp_path / "data", environment={"METASTORE_CONFIG": str(tmp_path / "metastore.yaml")}
    )
    try:
        with lake_client.session(running) as sql:
            assert sql.rows("select count(*) from demo_lake.sales.numbers") == [(1000,)]
            assert sql.rows("select count(*) from local.plain.words") == [(10,)]
            sql.answer("create table scratch.public.t as select 1 as a")
            assert sql.rows("select a from scratch.public.t") == [(1,)]
        assert other.secret_key not in running.log.read_text()
    finally:
        running.stop()


def test_a_broken_metastore_config_is_refused_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "metastore.yaml").write_text("volumes:\n  - a: [hush\n    secret: hush\n")
    with pytest.raises(AssertionError, match="is not YAML that this server reads") as refused:
        server_kit.start(tmp_path / "data", "--metastore-config", str(tmp_path / "metastore.yaml"))
    assert "hush" not in str(refused.value)


def test_files_beyond_the_cache_are_refused_and_a_killed_server_leaves_no_copy(
    other: server_kit.Running, tmp_path: Path
) -> None:
    part = 700 * 1024
    wide = lake_client.catalog(other).create_table(
        "sales.wide", schema=pa.schema([("id", pa.int64()), ("noise", pa.binary())])
    )
    for number in range(3):
        rows = {"id": [number], "noise": [random.Random(number).randbytes(part)]}
        wide.append(pa.table(rows, schema=wide.schema().as_arrow()))
    (tmp_path / "mini.toml").write_text(configuration(other, tmp_path, {"a.b": "/none"}))
    flags = ("--config", str(tmp_path / "mini.toml"), "--mount-cache-mib", "1")
    running = server_kit.start(tmp_path / "data", *flags)
    try:
        with lake_client.session(running) as sql:
            one = "select count(noise) from elsewhere.sales.wide where id = 1"
            assert sql.rows(one) == [(1,)]
            with pytest.raises(shell.ShellError, match="raise mount_cache_mib"):
                sql.rows("select count(noise) from elsewhere.sales.wide")
            assert sql.rows(one) == [(1,)]
        copies = [path for path in (tmp_path / "data" / "blobs").rglob("*") if path.is_file()]
        assert any(path.stat().st_size > part for path in copies)
        running.kill()
        running = server_kit.start(tmp_path / "data", *flags)
        copies = [path for path in (tmp_path / "data" / "blobs").rglob("*") if path.is_file()]
        assert copies == []
        with lake_client.session(running) as sql:
            assert sql.rows(one) == [(1,)]
    finally:
        running.stop()
    assert not [path for path in (tmp_path / "data" / "blobs").rglob("*") if path.is_file()]


@pytest.mark.parametrize("version", [2, 3])
def test_select_from_a_mount_leaves_out_rows_that_delete_files_delete(
    other: server_kit.Running, sql: lake_client.Session, version: int
) -> None:
    with lake_client.session(other, "sales") as writing:
        writing.answer(
            f"create iceberg table sales.marked{version} (id int, word varchar)"
            f" iceberg_version = {version} enable_iceberg_merge_on_read = true"
        )
        values = ", ".join(f"({number}, 'w{number}')" for number in range(50))
        writing.answer(f"insert into sales.marked{version} values {values}")
        writing.answer(f"delete from sales.marked{version} where id between 10 and 19")
    marked = lake_client.catalog(other).load_table(f"sales.marked{version}")
    assert marked.format_version == version
    assert len(marked.inspect.delete_files()) == 1
    counted = f"select count(*), sum(id) from elsewhere.sales.marked{version}"
    assert sql.rows(counted) == [(40, 1225 - 145)]


def test_a_view_of_the_lake_reads_a_mount_that_the_statement_does_not_name(
    sql: lake_client.Session,
) -> None:
    sql.answer("create schema lake.seen")
    sql.answer("create view lake.seen.v as select word from elsewhere.sales.numbers where id = 3")
    assert sql.rows("select * from lake.seen.v") == [("w3",)]


def test_a_table_of_a_mount_that_cannot_be_read_hides_no_other_from_listings(
    sql: lake_client.Session,
) -> None:
    for listing in (
        "show tables in schema folder.plain",
        "select table_catalog, table_name from folder.information_schema.tables",
        "select table_catalog, table_name from folder.information_schema.columns",
    ):
        assert "WORDS" in {str(row[1]).upper() for row in sql.rows(listing)}, listing
