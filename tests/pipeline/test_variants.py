"""Tables with columns of `variant` in jobs: compaction, loads by Spark, and loads without it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline import errors, ingest, jobs, maintenance, reading, settings
from tests.kit import duck as duck_kit
from tests.kit import lake_client
from tests.kit.server import Running
from tests.pipeline.lake import Lake, Raw, Small

pytestmark = pytest.mark.spark

NAMESPACE = "variants"


@pytest.fixture(scope="module")
def duck(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    connection = duck_kit.attached(server, tmp_path_factory.mktemp("duckdb"))
    yield connection
    connection.close()


VALUES = {1: '{"a":1,"b":[true,null]}', 2: '"2026-01-02"', 3: "1.5"}


@pytest.fixture
def table(lake: Lake, server: Running) -> str:
    """Return a table whose rows SQL wrote, in some files."""
    lake.catalog.create_namespace_if_not_exists(NAMESPACE)
    name = f"t_{uuid.uuid4().hex[:8]}"
    with lake_client.session(server, NAMESPACE) as session:
        session.rows(f"create iceberg table {name} (id int, v variant) iceberg_version = 3")
        for number, text in VALUES.items():
            session.rows(f"insert into {name} select {number}, parse_json('{text}')")
        session.rows(f"update {name} set v = to_variant('2026-01-02'::date) where id = 2")
    return name


def rows(server: Running, name: str) -> list[Any]:
    with lake_client.session(server, NAMESPACE) as session:
        return sorted(session.rows(f"select id, typeof(v), to_json(v) from {name}"))


def test_compaction_keeps_the_variants_of_every_writer(
    lake: Lake, server: Running, duck: Any, table: str
) -> None:
    full = f"lake.{NAMESPACE}.{table}"
    lake.spark.session.sql(f"insert into {full} select 4L, parse_json('[1, 2.50]')").collect()
    duck.execute(f"insert into {full} values (5, {{'a': 7}}::variant), (6, {{'a': 8}}::variant)")
    before = rows(server, table)
    assert [row[0] for row in before] == [1, 2, 3, 4, 5, 6]
    assert before[1][1:] == ("DATE", '"2026-01-02"')
    counts = maintenance.compact(
        settings.parse_table(full),
        target_file_size_mib=None,
        min_input_files=2,
        open_spark=lake.open_spark,
        say=lake.said.append,
    )
    assert counts["added_data_files_count"] == 1
    assert rows(server, table) == before


def test_loads_by_spark_add_to_a_table_with_a_variant_merge_into_it_and_read_it(
    lake: Lake, server: Running, duck: Any, table: str, raw: Raw
) -> None:
    full = f"lake.{NAMESPACE}.{table}"
    duck.execute(f"insert into {full} values (5, {{'a': 7}}::variant)")
    raw.put("in/a.csv", "id\n7\n8\n")
    before = rows(server, table)
    lake.ingest(raw, f"{NAMESPACE}.{table}")
    after = rows(server, table)
    assert after == [*before, (7, None, None), (8, None, None)]
    raw.put("merged/a.csv", "id,gone\n1,0\n7,1\n9,0\n")
    merge = jobs.Merge(key=("id",), delete_flag="gone")
    merged = lake.ingest(raw, f"{NAMESPACE}.{table}", prefix="merged/", mode="merge", merge=merge)
    assert merged.merged is not None
    # A column that the sources lack stays as it is.
    assert rows(server, table) == [*after[:-2], (8, None, None), (9, None, None)]


def test_a_load_without_spark_leaves_a_table_with_a_variant_to_spark(
    small: Small, server: Running, table: str, raw: Raw
) -> None:
    raw.put("in/a.csv", "id\n7\n")
    before = rows(server, table)
    with pytest.raises(errors.PipelineError, match="a table with a column of variant"):
        small.ingest(raw, f"{NAMESPACE}.{table}")
    assert rows(server, table) == before


def test_a_load_of_a_table_reads_its_shredded_variants(
    lake: Lake, server: Running, duck: Any, table: str
) -> None:
    full = f"lake.{NAMESPACE}.{table}"
    duck.execute(f"insert into {full} values (5, {{'a': 7}}::variant)")
    target = f"{table}_copy"
    with lake_client.session(server, NAMESPACE) as session:
        session.rows(f"create iceberg table {target} (id int, v variant) iceberg_version = 3")
    load = jobs.Load(
        places=(),
        reader=reading.of_rows(),
        table=settings.parse_table(f"lake.{NAMESPACE}.{target}"),
        relation=settings.parse_catalog_source(f"table:{full}"),
    )
    loaded = ingest.run(lake.server, load, open_spark=lake.open_spark, say=lake.said.append)
    assert loaded.rows == 4
    assert rows(server, target) == rows(server, table)
