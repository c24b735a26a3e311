"""INFORMATION_SCHEMA.LOAD_HISTORY: the files that COPY loaded, or tried to load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catalog import idents, loads
from sql import errors, load_history
from tests.kit import local_sql

HISTORY = "information_schema.load_history"
COLUMNS = "schema_name, table_name, file_name, status, row_count, row_parsed, error_count"


def test_files_of_copy_are_listed_with_their_rows_and_errors(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("create table empty (a int)")
        await local.run("create stage st")
        await local_sql.put_file(local, "@st", "good.csv", b"1\n2\n")
        await local_sql.put_file(local, "@st", "some.csv", b"3\nx\n")
        await local_sql.put_file(local, "@st", "none.csv", b"y\n")
        await local.rows("copy into t from @st on_error = continue")
        listed = await local.rows(f"select {COLUMNS} from {HISTORY} order by file_name")
        assert listed == [
            ("NS", "T", "st/good.csv", "LOADED", 2, 2, 0),
            ("NS", "T", "st/none.csv", "LOAD_FAILED", 0, 1, 1),
            ("NS", "T", "st/some.csv", "PARTIALLY_LOADED", 1, 2, 1),
        ]
        faults = await local.rows(
            "select first_error_line_number, first_error_message, error_limit"
            f" from {HISTORY} where file_name like '%some%'"
        )
        again = await local.rows("copy into t from @st force = true on_error = continue")
        (answered,) = [row for row in again if "some" in row[0]]
        assert faults == [(answered[7], answered[6], answered[4])]
        assert await local.one(f"select count(*) from {HISTORY}") == 6
        await local.run("drop table t")
        assert await local.one(f"select count(*) from {HISTORY}") == 0

    local_sql.run_local(tmp_path, work)


def test_loads_are_those_of_tables_that_the_caller_may_load(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create stage st")
        await local_sql.put_file(local, "@st", "a.csv", b"1\n")
        for name in ("mine", "theirs"):
            await local.run(f"create table {name} (a int)")
            await local.rows(f"copy into {name} from @st")
        uuid = local.lake.load(local.lake.ident("ns.theirs")).pointer.object_uuid
        everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        for action in ("s3tables:GetTable", "s3tables:GetTableMetadataLocation"):
            denied = {
                "Effect": "Deny",
                "Action": action,
                "Resource": f"arn:aws:s3tables:*:*:bucket/lake/table/{uuid}",
            }
            local.session.principal = local_sql.user("reader", [everything, denied])
            assert await local.rows(f"select table_name from {HISTORY}") == [("MINE",)]

    local_sql.run_local(tmp_path, work)


def test_a_load_without_an_answer_is_listed_by_its_source(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        sources = json.dumps([{"source": "s3://other/a.parquet", "etag": "1"}])
        snapshot = {
            "snapshot-id": 7,
            "sequence-number": 1,
            "timestamp-ms": local.lake.clock.now_ms,
            "manifest-list": "s3://lake/ns/t/metadata/snap-7.avro",
            "summary": {"operation": "append", loads.SUMMARY_KEY: sources},
        }
        ident = local.lake.ident("ns.t")
        await local.lake.tables.commit(
            ident, [], [{"action": "add-snapshot", "snapshot": snapshot}], by="test"
        )
        assert await local.rows(f"select {COLUMNS} from {HISTORY}") == [
            ("NS", "T", "s3://other/a.parquet", "LOADED", None, None, None)
        ]

    local_sql.run_local(tmp_path, work)


IDENT = idents.TableIdent(table_bucket="lake", namespace=("ns",), name="t")


def test_a_summary_that_copy_did_not_write_is_no_answer() -> None:
    row = ["a.csv", "LOADED", 1, 1, 1, 0, None, None, None, None]
    short, other = json.dumps([row[:-1]]), json.dumps([["a", *row[2:], 1]])
    for text in ("[1]", "{}", "x", "[[1, 2]]", short, other):
        summary = {load_history.ANSWER: text}
        snapshot = {"snapshot-id": 7, "timestamp-ms": 5, "summary": summary}
        assert list(load_history.of_snapshots(IDENT, [snapshot, {}])) == []
    summary = {load_history.ANSWER: json.dumps([row])}
    answered = {"snapshot-id": 7, "timestamp-ms": 5, "summary": summary}
    ((snapshot_id, (load,)),) = load_history.of_snapshots(IDENT, [answered])
    assert (snapshot_id, load.file, load.rows, load.loaded_at_ms) == (7, "a.csv", 1, 5)


def test_the_newest_loads_are_listed() -> None:
    loaded = [
        load_history.LoadedFile(ident=IDENT, file=str(at), loaded_at_ms=at) for at in range(10_050)
    ]
    newest = load_history.newest(loaded)
    assert len(newest) == load_history.HISTORY_MAX
    assert newest[0].loaded_at_ms == 10_049
    assert newest[-1].loaded_at_ms == 50


def test_copy_history_is_of_one_table_and_a_time(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("create table u (a int)")
        await local.run("create stage st")
        await local_sql.put_file(local, "@st", "good.csv", b"1\n2\n")
        await local_sql.put_file(local, "@st", "some.csv", b"3\nx\n")
        await local.rows("copy into t from @st on_error = continue")
        await local.rows("copy into u from @st files = ('good.csv')")
        recent = "start_time => dateadd(hour, -1, current_timestamp())"

        def history(table: str, time: str = recent, of: str = "information_schema") -> str:
            return f"from table({of}.copy_history(table_name => '{table}', {time}))"

        columns = "file_name, row_count, status, table_catalog_name, table_schema_name, table_name"
        listed = [
            ("st/good.csv", 2, "Loaded", "LAKE", "NS", "T"),
            ("st/some.csv", 1, "Partially loaded", "LAKE", "NS", "T"),
        ]
        for table, of in (
            ("t", "information_schema"),
            ("NS.T", "lake.information_schema"),
            ("lake.ns.t", "information_schema"),
        ):
            text = f"select {columns} {history(table, of=of)} order by 1"
            assert await local.rows(text) == listed
        of_u = f"select h.row_count {history('u')} as h where h.status = 'Loaded'"
        assert await local.rows(of_u) == [(2,)]
        assert await local.one(f"select count(*) {history('nothing')}") == 0
        later = "start_time => dateadd(hour, 1, current_timestamp())"
        assert await local.one(f"select count(*) {history('t', later)}") == 0
        until = f"{recent}, end_time => dateadd(minute, -30, current_timestamp())"
        assert await local.one(f"select count(*) {history('t', until)}") == 0
        star = await local.run(f"select * {history('t')}")
        assert [column.name for column in star.columns][:3] == [
            "FILE_NAME",
            "STAGE_LOCATION",
            "LAST_LOAD_TIME",
        ]
        for text in (
            "select * from table(information_schema.copy_history(table_name => 't'))",
            f"select * {history('t', recent + ', pipe => 1')}",
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            assert caught.value.code == "000002"

    local_sql.run_local(tmp_path, work)
