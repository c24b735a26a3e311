"""EXTERNAL_VOLUME, CATALOG and BASE_LOCATION of CREATE ICEBERG TABLE."""

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
