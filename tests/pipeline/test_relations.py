"""Rows of another table are loaded once, snapshot by snapshot; those of a view are read whole."""

from __future__ import annotations

import dataclasses
import datetime
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from pipeline import __main__ as command
from pipeline import errors, ingest, interrupts, jobs, reading, settings, sources
from tests.kit import lake_client
from tests.kit import server as server_kit
from tests.pipeline import wire
from tests.pipeline.lake import Lake
from tests.pipeline.test_killed import CutOff, Job, cut_off_at_the_commit, without_files

pytestmark = pytest.mark.spark


def table_of(*ids: int, **columns: Any) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


def new_table(lake: Lake, name: str, *ids: int) -> Any:
    """Create a table with rows by another client; return it as PyIceberg has it."""
    lake.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    table = lake.catalog.create_table(name, schema=table_of().schema)
    table.append(table_of(*ids))
    return table


def load_of(source: str, target: str, **changes: Any) -> jobs.Load:
    return jobs.Load(
        places=(),
        relation=settings.parse_catalog_source(f"table:{source}"),
        reader=reading.of_rows(),
        table=settings.parse_table(f"lake.{target}"),
        **changes,
    )


def run(lake: Lake, load: jobs.Load, *, say: Any = None) -> jobs.Loaded:
    said = say or lake.said.append
    return ingest.run(lake.server, load, open_spark=lake.open_spark, say=said)


@pytest.mark.smoke
def test_a_load_of_a_table_reads_what_was_appended_since_the_last_one(lake: Lake) -> None:
    table = new_table(lake, "rel_grown.s", 1, 2)
    load = load_of("lake.rel_grown.s", "rel_grown.t")
    first = run(lake, load)
    assert (first.rows, first.sources, first.engine) == (2, 1, "spark")
    table.append(table_of(3))
    with table.update_schema() as update:
        update.add_column("more", StringType())
    table.append(table_of(4, more=pa.array(["x"])))
    more = run(lake, load)
    assert (more.rows, more.sources, more.skipped) == (2, 2, 1)
    assert more.columns_added == ("more",)
    assert lake.rows("rel_grown.t") == [
        {"id": 1, "more": None}, {"id": 2, "more": None}, {"id": 3, "more": None},
        {"id": 4, "more": "x"},
    ]  # fmt: skip
    lake.spark.session.sql(
        "CALL lake.system.rewrite_data_files(table => 'lake.rel_grown.s', "
        "options => map('min-input-files', '2'))"
    )
    table.refresh().append(table_of(5, more=pa.array(["y"])))
    assert run(lake, load).rows == 1
    assert [row["id"] for row in lake.rows("rel_grown.t")] == [1, 2, 3, 4, 5]
    said: list[str] = []
    before = lake.state("rel_grown.t")
    assert run(lake, load, say=said.append).snapshot_id is None
    assert said == ["nothing to load: lake.rel_grown.t has all of these snapshots already"]
    assert lake.state("rel_grown.t") == before


def test_changed_rows_refuse_an_append_are_merged_by_key_and_replaced(lake: Lake) -> None:
    table = new_table(lake, "rel_changed.s", 1, 2, 3)
    appending = load_of("lake.rel_changed.s", "rel_changed.t")
    merging = load_of(
        "lake.rel_changed.s", "rel_changed.m", mode="merge", merge=jobs.Merge(key=("id",))
    )
    run(lake, appending)
    run(lake, merging)
    table.delete("id = 2")
    table.append(table_of(4))
    before = lake.state("rel_changed.t")
    with pytest.raises(errors.BadArgument, match=r"lake\.rel_changed\.s has not only grown"):
        run(lake, appending)
    assert lake.state("rel_changed.t") == before

    said: list[str] = []
    merged = run(lake, merging, say=said.append)
    assert merged.merged == jobs.MergeCounts(inserted=1, updated=2, deleted=0)
    assert said[0].startswith("reading lake.rel_changed.s whole, because its snapshot ")
    assert [row["id"] for row in lake.rows("rel_changed.m")] == [1, 2, 3, 4]
    table.append(table_of(5))
    assert run(lake, merging).merged == jobs.MergeCounts(inserted=1, updated=0, deleted=0)

    replacing = load_of("lake.rel_changed.s", "rel_changed.t", mode="replace")
    assert run(lake, replacing).rows == 4
    assert [row["id"] for row in lake.rows("rel_changed.t")] == [1, 3, 4, 5]
    assert run(lake, replacing).snapshot_id is None
    table.append(table_of(6))
    assert run(lake, appending).rows == 1
    assert [row["id"] for row in lake.rows("rel_changed.t")] == [1, 3, 4, 5, 6]


def test_two_loads_of_one_table_at_once_load_each_row_once(lake: Lake) -> None:
    table = new_table(lake, "rel_twice.s", 1)
    load = load_of("lake.rel_twice.s", "rel_twice.t")
    run(lake, load)
    table.append(table_of(2))
    others: list[jobs.Loaded] = []

    def say(line: str) -> None:
        if line.startswith("committing") and not others:
            others.append(jobs.Loaded(
                rows=0, sources=0, skipped=0, files=0, columns_added=(), snapshot_id=None
            ))  # fmt: skip
            table.append(table_of(3))
            others.append(run(lake, load))

    done = run(lake, load, say=say)
    assert (others[-1].rows, done.rows) == (2, 0)
    assert [row["id"] for row in lake.rows("rel_twice.t")] == [1, 2, 3]


def test_a_table_of_another_warehouse_is_a_source_too(lake: Lake) -> None:
    from pyiceberg.catalog import load_catalog

    sources.client(lake.server, "s3tables").create_table_bucket(name="rel-other")
    catalog = load_catalog(
        "other", type="rest", uri=lake.server.iceberg, warehouse="rel-other",
        **settings.catalog_credentials(lake.server),
    )  # fmt: skip
    catalog.create_namespace("a")
    table = catalog.create_table("a.s", schema=table_of().schema)
    table.append(table_of(7))
    assert run(lake, load_of("rel-other.a.s", "rel_beside.t")).rows == 1
    assert lake.rows("rel_beside.t") == [{"id": 7}]
    plan = ingest.plan(
        lake.server, load_of("rel-other.a.s", "rel_beside.other"), open_spark=lake.open_spark,
        say=lake.said.append,
    )  # fmt: skip
    assert plan is not None
    assert (plan.creates_table, plan.sources, plan.first_rows) == (True, 1, ({"id": 7},))


def test_a_view_is_read_whole_to_replace_a_table_or_to_merge(lake: Lake) -> None:
    table = new_table(lake, "rel_view.s", 1, 2)
    lake.spark.session.sql(
        "CREATE VIEW lake.rel_view.v AS SELECT id, id * 10 AS tens FROM lake.rel_view.s"
    )
    view = settings.parse_catalog_source("view:lake.rel_view.v")
    replacing = dataclasses.replace(load_of("lake.rel_view.s", "rel_view.t"), relation=view)
    with pytest.raises(errors.BadArgument, match="use --mode replace or merge"):
        run(lake, replacing)
    replacing = dataclasses.replace(replacing, mode="replace")
    merging = dataclasses.replace(
        replacing,
        table=settings.parse_table("lake.rel_view.m"),
        mode="merge",
        merge=jobs.Merge(key=("id",)),
    )
    plan = ingest.plan(lake.server, replacing, open_spark=lake.open_spark, say=lake.said.append)
    assert plan is not None
    assert plan.first_rows == ({"id": 1, "tens": 10}, {"id": 2, "tens": 20})
    assert run(lake, replacing).rows == 2
    assert run(lake, merging).merged == jobs.MergeCounts(inserted=2, updated=0, deleted=0)
    table.append(table_of(3))
    lake.spark.session.sql(
        "CREATE OR REPLACE VIEW lake.rel_view.v AS SELECT id, id * 11 AS tens FROM lake.rel_view.s"
        " WHERE id > 1"
    )
    assert run(lake, replacing).rows == 2
    assert run(lake, merging).merged == jobs.MergeCounts(inserted=1, updated=1, deleted=0)
    assert lake.rows("rel_view.t") == [{"id": 2, "tens": 22}, {"id": 3, "tens": 33}]
    assert lake.rows("rel_view.m") == [
        {"id": 1, "tens": 10}, {"id": 2, "tens": 22}, {"id": 3, "tens": 33}
    ]  # fmt: skip
    with pytest.raises(errors.BadArgument, match=r"it is a view: write view:lake\.rel_view\.v"):
        run(lake, load_of("lake.rel_view.v", "rel_view.t"))
    absent = settings.parse_catalog_source("view:lake.rel_view.absent")
    with pytest.raises(errors.BadArgument, match=r"there is no view lake\.rel_view\.absent"):
        run(lake, dataclasses.replace(replacing, relation=absent))


def test_a_view_that_sql_made_is_computed_by_sql_to_replace_a_table_or_to_merge(
    lake: Lake, server: server_kit.Running
) -> None:
    lake.catalog.create_namespace_if_not_exists("rel_sql")
    with lake_client.session(server, "rel_sql") as sql:
        sql.answer("create table orders (id int, client int, amount number(10, 2), at timestamp)")
        sql.answer("create table clients (id int, name text)")
        sql.answer("insert into orders values (1, 7, 1.50, '2026-01-02 03:04:05.678'), "
                   "(2, 7, 2.25, null), (3, 8, 0.10, '1969-12-31 23:59:59')")  # fmt: skip
        sql.answer("insert into clients values (7, 'Zoë'), (8, null)")
        # Spark has no IFF, and another meaning for `?`.
        sql.answer(
            "create view totals as select c.id as client, iff(c.name is null, '?', c.name) as name,"
            " sum(o.amount) over (partition by c.id) as total, o.at from orders o"
            " join clients c on c.id = o.client"
            " qualify row_number() over (partition by c.id order by o.id) = 1"
        )
    view = settings.parse_catalog_source("view:lake.rel_sql.totals")
    replacing = dataclasses.replace(
        load_of("lake.rel_sql.orders", "rel_sql.t"), relation=view, mode="replace"
    )
    assert run(lake, replacing).rows == 2
    first = [
        {"client": 7, "name": "Zoë", "total": Decimal("3.75"),
         "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000)},  # noqa: DTZ001 - it has no zone
        {"client": 8, "name": "?", "total": Decimal("0.10"),
         "at": datetime.datetime(1969, 12, 31, 23, 59, 59)},  # noqa: DTZ001 - the same
    ]  # fmt: skip
    assert lake.rows("rel_sql.t") == first
    merging = dataclasses.replace(
        replacing,
        table=settings.parse_table("lake.rel_sql.m"),
        mode="merge",
        merge=jobs.Merge(key=("client",)),
    )
    assert run(lake, merging).rows == 2
    with lake_client.session(server, "rel_sql") as sql:
        sql.answer("insert into orders values (4, 8, 1.00, null)")
        sql.answer("insert into clients values (9, 'new')")
        sql.answer("delete from orders where id <= 2")
        sql.answer("insert into orders values (5, 9, 5.00, null)")
    assert run(lake, replacing).rows == 2
    assert [(row["client"], row["total"]) for row in lake.rows("rel_sql.t")] == [
        (8, Decimal("1.10")), (9, Decimal("5.00")),
    ]  # fmt: skip
    run(lake, merging)
    assert [(row["client"], row["total"]) for row in lake.rows("rel_sql.m")] == [
        (7, Decimal("3.75")), (8, Decimal("1.10")), (9, Decimal("5.00")),
    ]  # fmt: skip
    with lake_client.session(server, "rel_sql") as sql:
        assert sql.rows("list @~/boathouse-pipeline/") == []
        sql.answer("delete from orders")
    assert run(lake, replacing).rows == 0
    assert lake.rows("rel_sql.t") == []


@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_a_load_of_a_view_beside_another_that_creates_the_table_starts_again(
    lake: Lake, server: server_kit.Running, mode: settings.Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.catalog.create_namespace_if_not_exists("rel_twice")
    with lake_client.session(server, "rel_twice") as sql:
        sql.answer("create or replace view v as select column1 as id from values (1), (2)")
    load = dataclasses.replace(
        load_of("lake.rel_twice.v", f"rel_twice.{mode}"),
        relation=settings.parse_catalog_source("view:lake.rel_twice.v"),
        mode=mode,
        merge=jobs.Merge(key=("id",)) if mode == "merge" else None,
    )
    transaction = ingest._transaction
    begun: list[str] = []
    others: list[jobs.Loaded] = []

    def after_another(*arguments: Any) -> Any:
        if not begun:
            begun.append(mode)
            others.append(run(lake, load))
        return transaction(*arguments)

    monkeypatch.setattr(ingest, "_transaction", after_another)
    said: list[str] = []
    assert run(lake, load, say=said.append).rows == 2
    assert [other.rows for other in others] == [2]
    assert f"another job has just created lake.rel_twice.{mode}; trying again" in said
    assert lake.rows(f"rel_twice.{mode}") == [{"id": 1}, {"id": 2}]


def test_a_load_into_the_name_of_a_view_is_refused_as_such(
    lake: Lake, server: server_kit.Running
) -> None:
    lake.catalog.create_namespace_if_not_exists("rel_target")
    with lake_client.session(server, "rel_target") as sql:
        sql.answer("create view v as select column1 as id from values (1), (2)")
        sql.answer("create view target as select 1 as id")
    load = dataclasses.replace(
        load_of("lake.rel_target.v", "rel_target.target"),
        relation=settings.parse_catalog_source("view:lake.rel_target.v"),
        mode="replace",
    )
    with pytest.raises(errors.BadArgument, match=r"lake\.rel_target\.target is a view"):
        run(lake, load)


def test_a_view_of_another_dialect_or_type_is_refused_with_its_name(
    lake: Lake, server: server_kit.Running
) -> None:
    new_table(lake, "rel_dialect.s", 1)
    name = settings.parse_table("lake.rel_dialect.v")
    catalog = lake.spark.catalog("lake")
    builder = catalog.buildView(lake.spark.identifier(name))
    schema = catalog.loadTable(
        lake.spark.identifier(settings.parse_table("lake.rel_dialect.s"))
    ).schema()
    builder = builder.withSchema(schema).withQuery("trino", "select id from s")
    builder.withDefaultNamespace(lake.spark.namespace(name.namespace)).create()
    load = dataclasses.replace(
        load_of("lake.rel_dialect.s", "rel_dialect.t"),
        relation=settings.parse_catalog_source("view:lake.rel_dialect.v"),
        mode="replace",
    )
    with pytest.raises(errors.BadArgument, match="or in the server's, only in that of trino"):
        run(lake, load)
    with lake_client.session(server, "rel_dialect") as sql:
        sql.answer("create view w as select id, time '01:02:03' as at from s")
    other = settings.parse_catalog_source("view:lake.rel_dialect.w")
    with pytest.raises(errors.BadArgument, match="column 'at' of the type time is in no file"):
        run(lake, dataclasses.replace(load, relation=other))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--from", "table:lake.x.t", "--to", "lake.x.t"], "cannot be the source of its own rows"),
        (["--from", "table:lake.x.s", "--from", "s3://b/", "--to", "lake.x.t"], "the only source"),
        (["--from", "table:lake.x.s", "--to", "lake.x.t", "--format", "json"], "--format is for"),
        (["--from", "table:lake.x.s", "--to", "lake.x.t", "--on-error", "reject"], "for files"),
        (["--from", "table:lake.x.s", "--to", "lake.x.t", "--follow"], "takes the objects of a"),
        (
            ["--from", "table:lake.x.s", "--to", "lake.x.t", "--engine", "arrow"],
            "there is no table",
        ),
        (["--from", "view:lake.x.s", "--to", "lake.x.t"], "use --mode replace or merge"),
        (["--from", "table:nowhere.x.s", "--to", "lake.x.t"], "there is no table bucket 'nowhere'"),
    ],
)
def test_what_does_not_go_with_a_table_as_source_is_refused_by_its_name(
    server: server_kit.Running,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    reason: str,
) -> None:
    data = ["--data", str(server.data)]
    assert command.main(["ingest", *data, *arguments], interrupts.Interrupts()) == 2
    assert reason in capsys.readouterr().err


def _commits(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/tables/t")


def test_a_load_of_a_table_cut_off_ahead_of_its_commit_loads_each_row_once_when_run_again(
    lake: Lake,
) -> None:
    table = new_table(lake, "rel_cut.s", 1)
    load = load_of("lake.rel_cut.s", "rel_cut.t")
    run(lake, load)
    table.append(table_of(2))
    before = lake.state("rel_cut.t")
    with pytest.raises(CutOff):
        run(lake, load, say=cut_off_at_the_commit)
    assert without_files(lake.state("rel_cut.t")) == without_files(before)
    assert run(lake, load).rows == 1
    assert run(lake, load).snapshot_id is None
    assert [row["id"] for row in lake.rows("rel_cut.t")] == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_load_of_a_table_killed_at_its_commit_loads_each_row_once_when_run_again(
    server: server_kit.Running, lake: Lake, tmp_path: Path, side: str
) -> None:
    name = f"rel_killed_{side}"
    table = new_table(lake, f"{name}.s", 1)
    by_id = settings.parse_partitions("id")
    load = load_of(f"lake.{name}.s", f"{name}.t", partitions=by_id)
    run(lake, load)
    table.append(table_of(2))
    job, struck = Job(tmp_path, server), threading.Event()

    def strike(method: str, path: str) -> bool:
        if not _commits(method, path):
            return False
        struck.set()
        door.closed.set()
        job.kill()
        return True

    watches = {side: strike}
    with wire.door(server.url, **watches) as door:
        said = job.run(door.url, f"table:lake.{name}.s", f"lake.{name}.t", "--partition-by", "id")
        assert struck.is_set(), said
    job.wait_until_gone()
    done = run(lake, load)
    assert done.rows == (0 if side == "after" else 1)
    assert [row["id"] for row in lake.rows(f"{name}.t")] == [1, 2]
