"""The options of CREATE ICEBERG TABLE and ALTER TABLE that only Iceberg tables have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sql import errors
from tests.kit import local_sql

PLACE = "s3://lake/_dbt/ns/t"
OPTIONS = "external_volume = 'LAKE' catalog = 'SNOWFLAKE' base_location = '_dbt/ns/t'"


def location_of(local: local_sql.LocalSql, dotted: str) -> str:
    location: str = local.lake.load(local.lake.ident(dotted)).metadata.location
    return location


async def refusal(local: local_sql.LocalSql, text: str) -> tuple[str, str]:
    with pytest.raises(errors.SqlError) as caught:
        await local.run(text)
    return caught.value.code, caught.value.message.removeprefix("SQL compilation error:\n")


def test_the_table_lies_at_its_base_location_and_stays_there(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for number in (1, 2):
            await local.run(
                f"create or replace iceberg table t {OPTIONS} as (select {number} as a)"
            )
            assert location_of(local, "ns.t") == PLACE
        assert await local.rows("select a from t") == [(2,)]
        keys = [each.key for each in local.lake.storage.objects.list("lake").objects]
        assert keys
        assert all(key.startswith("_dbt/ns/t/") for key in keys)
        await local.run(f"create or replace iceberg table t (b int) {OPTIONS} cluster by (b)")
        assert location_of(local, "ns.t") == PLACE
        # A name that is free again: files of the dropped table are still at the old place.
        await local.run("drop table t")
        await local.run(f"create iceberg table t (a int) {OPTIONS}")
        assert re.fullmatch(PLACE + "-[0-9a-f]{8}", location_of(local, "ns.t"))
        await local.run(f"create or replace iceberg table t {OPTIONS} as (select 3 as a)")
        assert await local.rows("select a from t") == [(3,)]
        assert re.fullmatch(PLACE + "-[0-9a-f]{8}", location_of(local, "ns.t"))

    local_sql.run_local(tmp_path, work)


def test_options_are_optional_and_a_final_slash_is_no_folder(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (a int) catalog = snowflake external_volume = lake")
        assert location_of(local, "ns.t") == "s3://lake/ns/t"
        await local.run("create iceberg table u (a int) base_location = 'x/y/'")
        assert location_of(local, "ns.u") == "s3://lake/x/y"
        await local.run("create iceberg table if not exists u (a int) base_location = 'z/z'")
        assert location_of(local, "ns.u") == "s3://lake/x/y"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("create iceberg table u (a int) external_volume = 'other'", "001008", "volume 'lake'"),
        ("create iceberg table u (a int) catalog = 'glue'", "000002", "CATALOG = 'glue'"),
        ("create iceberg table u (a int) base_location = 'u'", "001008", "location-depth"),
        ("create iceberg table u (a int) base_location = 'a/.b'", "001008", "hidden-segment"),
        ("create iceberg table u (a int) base_location = '/a/b'", "001008", "empty-segment"),
        ("create iceberg table u (a int) base_location = 'ns/t/x'", "001008", "files of another"),
        (
            "create or replace iceberg table t (a int) base_location = 'a/b'",
            "001008",
            "keeps the location of a table, which is s3://lake/ns/t",
        ),
        ("create table u (a int) base_location = 'a/b'", "000002", "BASE_LOCATION"),
        ("create table u (a int) external_volume = 'lake'", "000002", "EXTERNAL_VOLUME"),
        (
            "create iceberg table u (a int) base_location = 'a/b' base_location = 'c/d'",
            "000002",
            "BASE_LOCATION twice",
        ),
    ],
)
def test_an_option_that_cannot_be_true_is_refused(
    tmp_path: Path, text: str, code: str, words: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        refused, message = await refusal(local, text)
        assert (refused, words in message) == (code, True), message
        assert not local.lake.tables.exists(local.lake.ident("ns.u"))
        assert location_of(local, "ns.t") == "s3://lake/ns/t"

    local_sql.run_local(tmp_path, work)


def properties_of(local: local_sql.LocalSql, name: str) -> dict[str, str]:
    metadata = local.lake.load(local.lake.ident(name)).metadata
    return {"version": str(metadata.format_version)} | {
        key: value
        for key, value in metadata.properties.items()
        if key.endswith((".mode", "target-file-size-bytes"))
    }


def modes(mode: str) -> dict[str, str]:
    return {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}


def test_options_of_an_iceberg_table_set_its_properties(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create iceberg table t (a int) iceberg_version = 3"
            " iceberg_merge_on_read_behavior = 'Enabled' target_file_size = '16MB'"
        )
        size = {"write.target-file-size-bytes": str(16 << 20)}
        assert properties_of(local, "ns.t") == {"version": "3"} | modes("merge-on-read") | size
        await local.run("alter iceberg table t set iceberg_merge_on_read_behavior = 'DISABLED'")
        assert properties_of(local, "ns.t") == {"version": "3"} | modes("copy-on-write") | size
        await local.run("alter table t set enable_iceberg_merge_on_read = true, comment = 'x'")
        assert properties_of(local, "ns.t") == {"version": "3"} | modes("merge-on-read") | size
        await local.run("alter table t set iceberg_merge_on_read_behavior = 'AUTO'")
        await local.run("alter table t unset target_file_size, enable_iceberg_merge_on_read")
        assert properties_of(local, "ns.t") == {"version": "3"}
        await local.run("create iceberg table u enable_iceberg_merge_on_read = false as select 1 a")
        assert properties_of(local, "ns.u") == {"version": "2"} | modes("copy-on-write")
        await local.run("alter table u set target_file_size = '16MB'")
        await local.run("create or replace iceberg table u (a int)")
        assert properties_of(local, "ns.u") == {"version": "2"} | modes("copy-on-write") | size
        auto = "target_file_size = 'AUTO' iceberg_merge_on_read_behavior = 'AUTO'"
        await local.run(f"create or replace iceberg table u (a int) {auto}")
        assert properties_of(local, "ns.u") == {"version": "2"}
        await local.run(f"create iceberg table v (a int) {auto}")
        assert properties_of(local, "ns.v") == {"version": "2"}

    local_sql.run_local(tmp_path, work)


def test_a_delete_obeys_the_option(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create iceberg table t enable_iceberg_merge_on_read = true as"
            " select seq4() as a from table(generator(rowcount => 10))"
        )
        await local.run("delete from t where a = 3")
        metadata = local.lake.load(local.lake.ident("ns.t")).metadata
        assert metadata.current_snapshot_id is not None
        summary = metadata.snapshot(metadata.current_snapshot_id)["summary"]
        assert summary["added-position-delete-files"] == "1"
        assert await local.rows("select count(*), sum(a) from t") == [(9, 42)]

    local_sql.run_local(tmp_path, work)


def test_or_replace_upgrades_the_format_version_and_keeps_what_it_does_not_name(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t enable_iceberg_merge_on_read = true as select 1 a")
        await local.run("create or replace iceberg table t iceberg_version = 3 as select 2 as b")
        assert properties_of(local, "ns.t") == {"version": "3"} | modes("merge-on-read")
        assert await local.rows("select b from t") == [(2,)]
        with pytest.raises(errors.SqlError, match="Drop the table first"):
            await local.run("create or replace iceberg table t (a int) iceberg_version = 2")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("create iceberg table t (a int) iceberg_merge_on_read_behavior = 'SOMETIMES'", "001008"),
        ("create iceberg table t (a int) enable_iceberg_merge_on_read = 'yes'", "001008"),
        ("create iceberg table t (a int) target_file_size = '17MB'", "001008"),
        ("create iceberg table t (a int) iceberg_version = 1", "001008"),
        ("create table t (a int) iceberg_version = 3", "000002"),
        ("alter table s set enable_iceberg_merge_on_read = 1", "001008"),
        ("alter table s unset iceberg_version", "000002"),
    ],
)
def test_an_option_without_that_value_or_place_is_refused(
    tmp_path: Path, text: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table s (a int)")
        with pytest.raises(errors.SqlError) as caught:
            await local.run(text)
        assert caught.value.code == code

    local_sql.run_local(tmp_path, work)
