"""Stages, file formats and COPY, as statements see them; clients are in tests/contract."""

from __future__ import annotations

import asyncio
import base64
import decimal
import gzip
import io
import json
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from catalog import loads, unpacking
from server.access import model as access_model
from sql import bindings, errors, stagerows, stages
from sql.dialect import operations
from storage import batch, blobs, objects
from storage import errors as storage_errors
from storage import model as storage_model
from tests.kit import avrofiles, local_sql, sweeps

Work = Callable[[local_sql.LocalSql], Coroutine[Any, Any, None]]


def run(path: Path, work: Work) -> None:
    local_sql.run_local(path, work)


USER_STAGE = operations.StageLocation(owner="user")


async def refused(local: local_sql.LocalSql, text: str) -> errors.SqlError:
    with pytest.raises(errors.SqlError) as raised:
        await local.rows(text)
    return raised.value


@pytest.mark.parametrize("comment", ["/* from @a */ ", "-- a job\n", "// a job\n"])
def test_copy_after_a_comment_loads_its_files(tmp_path: Path, comment: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@~", "a.csv", b"7\n")
        await local.rows(f"{comment}COPY INTO t FROM @~/a.csv")
        assert await local.rows("SELECT a FROM t") == [(7,)]

    run(tmp_path, work)


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


REPLACEMENTS = (
    "CREATE OR REPLACE TABLE t (a int)",
    "CREATE OR REPLACE TABLE t AS SELECT 7 AS a",
    "CREATE OR REPLACE TABLE t LIKE other",
    "CREATE OR REPLACE TABLE t CLONE other",
)


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_create_or_replace_of_a_table_empties_its_stage_and_no_other(
    tmp_path: Path, replacement: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for table in ("t", "other"):
            await local.run(f"CREATE TABLE {table} (a int)")
            await local_sql.put_file(local, f"@%{table}", "a.csv", b"1\n")
        upload = await local.run("PUT file:///tmp/late.csv @%t")
        await local.rows("ALTER TABLE t ADD COLUMN b int DEFAULT 5")
        assert await local.rows("COPY INTO t (a) FROM @%t") == [
            ("a.csv", "LOADED", 1, 1, 1, 0, None, None, None, None)
        ]
        assert len(await local.rows("LIST @%t")) == 1

        for number in range(2):
            await local.rows(replacement)
            assert await local.rows("LIST @%t") == []
            assert [row[0] for row in await local.rows("LIST @%other")] == ["a.csv"]
            # A client that began before the replacement stores its file where the stage was.
            assert upload.transfer is not None
            received = await local.lake.storage.blobs.store(b"9\n", digests=frozenset({"md5"}))
            await local.lake.storage.objects.put(
                stages.BUCKET,
                upload.transfer.prefix + "late.csv",
                received,
                attributes=storage_model.ObjectAttributes(),
            )
            assert await local.rows("LIST @%t") == []

            # A file of the same name and content is loaded again: the table is a new one.
            await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
            count = await local.one("SELECT count(*) FROM t")
            await local.rows("COPY INTO t FROM @%t PATTERN = 'a.csv'")
            assert await local.one("SELECT count(*) FROM t") == count + 1
            upload = await local.run("PUT file:///tmp/late.csv @%t")
            assert number == 0 or len(await local.rows("LIST @%t")) == 1

        await local.stages.sweep(lambda _: True)
        keys = [info.key for info in local.lake.storage.objects.list(stages.BUCKET).objects]
        assert [key.rsplit("/", 1)[1] for key in keys] == ["a.csv", "a.csv"]

    run(tmp_path, work)


def test_an_unload_into_the_stage_of_a_table_is_gone_after_or_replace(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t AS SELECT 1 AS a")
        await local.rows("COPY INTO @%t FROM t")
        assert len(await local.rows("LIST @%t")) == 1
        await local.rows("CREATE OR REPLACE TABLE t (a int)")
        assert await local.rows("LIST @%t") == []

    run(tmp_path, work)


def test_files_of_a_release_that_kept_no_rows_of_stages_are_gone_after_or_replace(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        await forget_stages_of_tables(local)
        assert len(await local.rows("LIST @%t")) == 1
        await local.rows("CREATE OR REPLACE TABLE t (a int)")
        assert await local.rows("LIST @%t") == []

    run(tmp_path, work)


def test_a_replacement_that_fails_leaves_the_stage_of_its_table(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        await refused(local, "CREATE OR REPLACE TABLE t AS SELECT 1 / a AS b FROM VALUES (0) v(a)")
        await refused(local, "CREATE TABLE t (a int)")
        assert len(await local.rows("LIST @%t")) == 1

    run(tmp_path, work)


def test_rows_of_stages_go_with_tables_that_cannot_be_restored(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        await local.rows("DROP TABLE t")
        await local.stages.sweep(lambda _: True)
        await local.rows("UNDROP TABLE t")
        assert len(await local.rows("LIST @%t")) == 1
        assert len(await forget_stages_of_tables(local, only_count=True)) == 1
        ident = local.lake.ident("ns.t")
        await local.lake.tables.drop(ident, purge=True, by="root")
        await local.stages.sweep(lambda _: True)
        assert await forget_stages_of_tables(local, only_count=True) == []

    run(tmp_path, work)


async def forget_stages_of_tables(
    local: local_sql.LocalSql, *, only_count: bool = False
) -> list[bytes]:
    index = local.lake.store.index
    start = stagerows.ALL_TABLES
    with index.view() as view:
        keys = [key for key, _ in view.scan(stagerows.STORE, start, stagerows.stop_after(start))]
    if not only_count:
        writes = tuple(batch.Delete(store=stagerows.STORE, key=key) for key in keys)
        await index.commit(batch.Batch(writes=writes))
    return keys


def test_files_of_stages_are_listed_and_removed_and_never_those_of_another(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE one")
        await local.run("CREATE STAGE one_more")
        await local.run("CREATE TABLE t (a int)")
        for location in ("@one/x", "@one/y/z", "@one_more", "@~", "@%t", "@lake.ns.%t/sub"):
            await local_sql.put_file(local, location, "f.csv", b"1\n")
        assert [row[0] for row in await local.rows("LIST @one")] == ["one/x/f.csv", "one/y/z/f.csv"]
        assert [row[0] for row in await local.rows("LS @one/y")] == ["one/y/z/f.csv"]
        assert [row[0] for row in await local.rows("LIST @~")] == ["f.csv"]
        assert [row[0] for row in await local.rows("LIST @%t")] == ["f.csv", "sub/f.csv"]
        ((name, size, md5, _),) = await local.rows("LIST @one PATTERN = '.*z/f[.]csv'")
        assert (name, size, md5) == ("one/y/z/f.csv", 2, "b026324c6904b2a9cb4b88d6d61c81d1")
        assert await local.rows("REMOVE @one/x") == [("one/x/f.csv", "removed")]
        assert [row[0] for row in await local.rows("LIST @one")] == ["one/y/z/f.csv"]
        assert len(await local.rows("LIST @one_more")) == 1
        for path in ("2e/x", "7e-f0/1e5e", "1e3.5"):  # numbers, but for their ends
            await local_sql.put_file(local, f"@one_more/{path}", "f.csv", b"1\n")
            assert [row[0] for row in await local.rows(f"LIST @one_more/{path}")] == [
                f"one_more/{path}/f.csv"
            ]
            assert await local.rows(f"SELECT $1 FROM @one_more/{path}/f.csv") == [("1",)]

    run(tmp_path, work)


@pytest.mark.parametrize("path", ["../x", "a/../../b", "./a", "a//b", "a/%2e%2e/../b"])
def test_a_path_that_leaves_its_stage_is_refused(tmp_path: Path, path: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        for text in (f"LIST @s/{path}", f"PUT file:///tmp/a @s/{path}", f"LIST '@s/{path}'"):
            assert (await refused(local, text)).code == "001008"

    run(tmp_path, work)


def test_a_dropped_stage_loses_its_files_and_a_new_one_of_its_name_has_none(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        await local_sql.put_file(local, "@s", "f.csv", b"1\n")
        assert (await refused(local, "CREATE STAGE s")).code == "002002"
        await local.run("CREATE STAGE IF NOT EXISTS s")
        assert len(await local.rows("LIST @s")) == 1
        await local.run("CREATE OR REPLACE STAGE s")
        assert await local.rows("LIST @s") == []
        await local_sql.put_file(local, "@s", "g.csv", b"1\n")
        await local.run("DROP STAGE s")
        assert (await refused(local, "LIST @s")).code == "002003"
        await local.run("DROP STAGE IF EXISTS s")
        await local.stages.sweep(None)
        assert local.lake.storage.objects.list(stages.BUCKET).objects == ()

    run(tmp_path, work)


def test_a_temporary_stage_hides_a_permanent_one_and_ends_with_its_session(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        await local.run("CREATE TEMPORARY STAGE s")
        await local_sql.put_file(local, "@s", "f.csv", b"1\n")
        shown = [(row[1], row[10]) for row in await local.rows("SHOW STAGES")]
        assert sorted(shown) == [("S", "INTERNAL"), ("S", "INTERNAL TEMPORARY")]
        await local.stages.sweep(lambda session_id: session_id == local.session.id)
        assert len(await local.rows("LIST @s")) == 1
        await local.stages.sweep(lambda _: False)
        assert await local.rows("LIST @s") == []
        assert [row[10] for row in await local.rows("SHOW STAGES")] == ["INTERNAL"]

    run(tmp_path, work)


def test_stages_of_a_dropped_schema_are_not_those_of_a_new_one_of_its_name(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE SCHEMA other")
        await local.run("CREATE STAGE s")
        await local_sql.put_file(local, "@s", "f.csv", b"1\n")
        await local.run("DROP SCHEMA other")
        await local.run("CREATE SCHEMA other")
        assert (await refused(local, "LIST @other.s")).code == "002003"
        await local.stages.sweep(lambda _: True)
        assert (await refused(local, "LIST @other.s")).code == "002003"

    run(tmp_path, work)


def test_undrop_schema_brings_stages_and_formats_back_with_their_files(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE SCHEMA other")
        await local.run("CREATE STAGE s")
        await local.run("CREATE FILE FORMAT f TYPE = CSV SKIP_HEADER = 1")
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@s", "f.csv", b"a\n1\n")
        await local.run("DROP SCHEMA other")
        await local.stages.sweep(lambda _: True)
        await local.run("UNDROP SCHEMA other")
        await local.run("USE SCHEMA other")
        await local.run("COPY INTO t FROM @s FILE_FORMAT = (FORMAT_NAME = f)")
        assert await local.rows("SELECT a FROM t") == [(1,)]

    run(tmp_path, work)


def test_files_of_stages_go_once_their_schema_cannot_be_restored(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE SCHEMA other")
        await local.run("CREATE STAGE s")
        await local_sql.put_file(local, "@s", "f.csv", b"1\n")
        await local.run("DROP SCHEMA other")
        lake = local.lake
        sweeps.pass_days(lake, 30)
        await local.stages.sweep(lambda _: True)
        assert len(lake.storage.objects.list(stages.BUCKET).objects) == 1, "it can be restored yet"
        await sweeps.sweep_of(lake).sweep(["lake"])
        await local.stages.sweep(lambda _: True)
        assert lake.storage.objects.list(stages.BUCKET).objects == ()

    run(tmp_path, work)


def test_a_user_sees_the_own_stage_and_named_stages_by_the_rights_on_the_schema(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        await local_sql.put_file(local, "@s", "f.csv", b"1\n")
        await local_sql.put_file(local, "@~", "mine.csv", b"1\n")
        reader = local_sql.user(
            "reader", [{"Effect": "Allow", "Action": "s3tables:GetNamespace", "Resource": "*"}]
        )
        stranger = local_sql.user("stranger", [])

        async def be(principal: access_model.Principal) -> None:
            local.session.principal = principal

        await be(reader)
        assert len(await local.rows("LIST @s")) == 1
        assert await local.rows("LIST @~") == []
        for text in ("PUT file:///tmp/x @s", "REMOVE @s", "DROP STAGE s", "CREATE STAGE z"):
            assert (await refused(local, text)).code == "003001", text
        await local.run("CREATE TEMP STAGE z")
        await be(stranger)
        for text in ("LIST @s", "PUT file:///tmp/x @s", "DROP STAGE s", "CREATE TEMP STAGE z"):
            assert (await refused(local, text)).code == "002003", text
        await be(local_sql.ROOT)
        assert len(await local.rows("LIST @s")) == 1

    run(tmp_path, work)


def test_keys_of_a_transfer_reach_the_stages_folder_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        upload = (await local.run("PUT file:///tmp/x.csv @s/sub")).transfer
        download = (await local.run("GET @s file:///tmp")).transfer
        assert upload is not None
        assert download is not None
        assert upload.prefix == download.prefix + "sub/"
        for transfer, access in ((upload, "rw"), (download, "r")):
            payload = transfer.keys.session_token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
            assert claims["scp"] == [[stages.BUCKET, download.prefix, access]]

    run(tmp_path, work)


def test_copy_loads_text_and_loads_no_file_twice(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "CREATE TABLE t (a int, b varchar, c timestamp_ntz, d number(10,2), e boolean, f date)"
        )
        data = b"1,one,2024-01-01 10:00:00,1.50,true,2024-02-03\n2,,,,,\n"
        await local_sql.put_file(local, "@%t", "a.csv.gz", gzip.compress(data))
        (answer,) = await local.rows("COPY INTO t")
        assert answer[:6] == ("a.csv.gz", "LOADED", 2, 2, 1, 0)
        assert await local.rows("SELECT a, b, d, e FROM t ORDER BY a") == [
            (1, "one", decimal.Decimal("1.50"), True),
            (2, None, None, None),
        ]
        before = local.lake.load(local.lake.ident("ns.t")).pointer.metadata_location
        assert await local.rows("COPY INTO t FROM @%t") == [
            ("Copy executed with 0 files processed.",)
        ]
        assert local.lake.load(local.lake.ident("ns.t")).pointer.metadata_location == before
        await local.rows("COPY INTO t FORCE = TRUE")
        assert await local.one("SELECT COUNT(*) FROM t") == 4
        await local_sql.put_file(
            local, "@%t", "a.csv.gz", gzip.compress(b"3,,,,,\n")
        )  # another content
        await local.rows("COPY INTO t")
        assert await local.one("SELECT COUNT(*) FROM t") == 5

    run(tmp_path, work)


def test_two_copies_of_one_file_at_one_time_load_it_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n2\n")
        await asyncio.gather(*(local.rows("COPY INTO t") for _ in range(3)))
        assert await local.one("SELECT COUNT(*) FROM t") == 2

    run(tmp_path, work)


def test_a_transaction_loads_a_file_once_and_a_rollback_forgets_it(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n2\n")
        await local.run("BEGIN")
        await local.rows("COPY INTO t")
        assert await local.one("SELECT COUNT(*) FROM t") == 2
        assert await local.rows("COPY INTO t") == [("Copy executed with 0 files processed.",)]
        await local.run("ROLLBACK")
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        await local.rows("COPY INTO t")
        assert await local.one("SELECT COUNT(*) FROM t") == 2

    run(tmp_path, work)


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("order", ["be", "le"])
@pytest.mark.parametrize("marked", [True, False])
def test_text_of_two_and_four_bytes_is_read_by_its_mark_or_as_big_endian(
    tmp_path: Path, width: int, order: str, marked: bool
) -> None:
    text = ("\ufeff" if marked else "") + "1,\u00fc\U0001f600\n" * 3

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, s varchar)")
        await local_sql.put_file(local, "@%t", "a.csv", text.encode(f"utf-{width}-{order}"))
        form = f"FILE_FORMAT = (TYPE = CSV ENCODING = 'UTF{width}{{}}')"
        expected = [(1, "\u00fc\U0001f600")] * 3
        if marked or order == "be":
            await local.rows("COPY INTO t " + form.format(""))
            assert await local.rows("SELECT * FROM t") == expected
        else:
            fault = await refused(local, "COPY INTO t " + form.format(""))
            assert fault.code in ("100144", "100038", "100080")
        await local.run("TRUNCATE TABLE t")
        await local.rows("COPY INTO t " + form.format(order.upper()))
        assert await local.rows("SELECT * FROM t") == expected

    run(tmp_path, work)


@pytest.mark.parametrize("data", [b"", b"1", b"\xff\xfe", b"\x00\x31\x00", b"\xff\xfe\x31"])
def test_text_that_ends_within_a_character_is_refused_or_empty(tmp_path: Path, data: bytes) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", data)
        load = "COPY INTO t FILE_FORMAT = (TYPE = CSV ENCODING = 'UTF16')"
        if data in (b"", b"\xff\xfe"):
            await local.rows(load)
        else:
            assert (await refused(local, load)).code == "100144"
        assert await local.one("SELECT COUNT(*) FROM t") == 0

    run(tmp_path, work)


@pytest.mark.parametrize("type_name", ["ORC", "PARQUET"])
def test_a_column_whose_name_is_no_text_is_a_fault_of_its_file(
    tmp_path: Path, type_name: str
) -> None:
    sink = io.BytesIO()
    table = pa.table({"column_b": [1, 2]})
    if type_name == "ORC":
        orc.write_table(table, sink)
    else:
        pq.write_table(table, sink, store_schema=False)
    data = sink.getvalue().replace(b"column_b", b"column_\xba")

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (v variant)")
        await local_sql.put_file(local, "@%t", "a.bin", data)
        load = f"COPY INTO t FILE_FORMAT = (TYPE = {type_name})"
        assert (await refused(local, load)).code in ("100144", "100064")
        await local.rows(f"{load} ON_ERROR = CONTINUE")
        assert await local.one("SELECT COUNT(*) FROM t") == 0

    run(tmp_path, work)


def test_truncate_forgets_what_was_loaded_and_delete_does_not(tmp_path: Path) -> None:
    nothing = [("Copy executed with 0 files processed.",)]

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local.run("CREATE TEMPORARY TABLE u (a int)")
        await local.run("CREATE STAGE s")
        await local_sql.put_file(local, "@s", "a.csv", b"1\n2\n")
        for table in "tu":
            await local.rows(f"COPY INTO {table} FROM @s")
            await local.run(f"DELETE FROM {table}")
            assert await local.rows(f"COPY INTO {table} FROM @s") == nothing
            for _ in range(2):  # its table is empty already, and then it is not
                await local.run(f"TRUNCATE TABLE {table}")
                await local.rows(f"COPY INTO {table} FROM @s")
                assert await local.one(f"SELECT COUNT(*) FROM {table}") == 2
                assert await local.rows(f"COPY INTO {table} FROM @s") == nothing

    run(tmp_path, work)


def test_truncate_forgets_at_once_what_many_steps_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "ROWS_AT_ONCE", 2)

    async def unwritten(*arguments: Any) -> None:
        """The server stops, or another session is faster."""

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        for number in range(5):
            await local_sql.put_file(local, "@%t", f"{number}.csv", b"1\n")
        await local.rows("COPY INTO t")
        with monkeypatch.context() as patched:
            patched.setattr(unpacking, "write_rows", unwritten)
            await local.run("TRUNCATE TABLE t")
        assert len(await local.rows("COPY INTO t FILES = ('1.csv', '3.csv')")) == 2
        assert len(await local.rows("COPY INTO t")) == 3
        assert await local.one("SELECT COUNT(*) FROM t") == 5

    run(tmp_path, work)


def test_a_transaction_that_truncates_loads_again_and_a_rollback_remembers(tmp_path: Path) -> None:
    nothing = [("Copy executed with 0 files processed.",)]

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n2\n")
        await local_sql.put_file(local, "@%t", "b.csv", b"3\n")
        await local.rows("COPY INTO t FILES = ('a.csv')")

        await local.run("BEGIN")
        await local.run("TRUNCATE TABLE t")
        assert len(await local.rows("COPY INTO t")) == 2
        assert await local.rows("COPY INTO t") == nothing
        await local.run("ROLLBACK")
        assert await local.one("SELECT COUNT(*) FROM t") == 2
        assert await local.rows("COPY INTO t FILES = ('a.csv')") == nothing

        await local.run("BEGIN")
        for _ in range(2):  # the second time its file is forgotten within the transaction
            assert await local.rows("COPY INTO t FILES = ('b.csv')") != nothing
            await local.run("TRUNCATE TABLE t")
        await local.rows("COPY INTO t FILES = ('a.csv')")
        await local.run("COMMIT")
        assert await local.one("SELECT SUM(a) FROM t") == 3
        assert await local.rows("COPY INTO t FILES = ('a.csv')") == nothing
        await local.rows("COPY INTO t FILES = ('b.csv')")
        assert await local.one("SELECT SUM(a) FROM t") == 6

    run(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "LIST @s",
        "REMOVE @s PATTERN = 'none'",
        "COPY INTO t FROM @s FORCE = TRUE",
        "COPY INTO t FROM @s FORCE = TRUE VALIDATION_MODE = RETURN_ERRORS",
        "COPY INTO @s/out FROM t OVERWRITE = TRUE",
        "COPY INTO @s/out FROM t OVERWRITE = TRUE DETAILED_OUTPUT = TRUE",
        "DESCRIBE STAGE s",
        "DESCRIBE FILE FORMAT f",
    ],
)
def test_a_describe_of_a_statement_about_files_has_the_columns_of_its_answer(
    tmp_path: Path, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local.run("CREATE STAGE s")
        await local.run("CREATE FILE FORMAT f TYPE = JSON")
        await local_sql.put_file(local, "@s", "a.csv", b"1\n2\n")
        before = await local.rows("LIST @s")
        described = await local.run(text, describe_only=True)
        assert await local.rows("LIST @s") == before
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        answered = await local.run(text)
        assert described.columns == answered.columns
        assert described.statement_type_id == answered.statement_type_id

    run(tmp_path, work)


def test_a_repeated_request_gets_the_first_answer(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n2\n")
        first = await local.rows("COPY INTO t PURGE = TRUE")
        again = await local.rows("COPY INTO t PURGE = TRUE", query_id=local.last_id)
        assert again == first
        assert await local.rows("LIST @%t") == []

    run(tmp_path, work)


def test_a_bad_value_names_its_file_line_row_and_column(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, b varchar(3))")
        await local_sql.put_file(local, "@%t", "a.csv", b"1,x\nabc,y\n3,toolong\n")
        fault = await refused(local, "COPY INTO t")
        assert fault.code == "100038"
        assert "Numeric value 'abc' is not recognized" in fault.message
        assert "File 'a.csv', line 2, character 1" in fault.message
        assert 'Row 2, column "T"["A":1]' in fault.message
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        (answer,) = await local.rows("COPY INTO t ON_ERROR = CONTINUE")
        assert answer[:6] == ("a.csv", "PARTIALLY_LOADED", 3, 1, 3, 2)
        assert answer[6:] == ("Numeric value 'abc' is not recognized", 2, 1, '"T"["A":1]')
        assert await local.rows("SELECT * FROM t") == [(1, "x")]

    run(tmp_path, work)


def test_on_error_skip_file_leaves_out_the_files_with_as_many_errors(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "bad.csv", b"1\nx\ny\n4\n")
        await local_sql.put_file(local, "@%t", "good.csv", b"5\n")
        expected = {"SKIP_FILE": 1, "SKIP_FILE_2": 1, "SKIP_FILE_3": 3, "'SKIP_FILE_60%'": 3}
        for option, count in expected.items():
            await local.run("CREATE TABLE u (a int)")
            rows = await local.rows(f"COPY INTO u FROM @%t ON_ERROR = {option}")
            assert {row[0]: row[1] for row in rows}["good.csv"] == "LOADED"
            assert await local.one("SELECT COUNT(*) FROM u") == count, option
            await local.run("DROP TABLE u")

    run(tmp_path, work)


def test_validation_mode_reports_and_loads_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\nx\n")
        (row,) = await local.rows("COPY INTO t VALIDATION_MODE = RETURN_ERRORS")
        assert row[:4] == ("Numeric value 'x' is not recognized", "a.csv", 2, 1)
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        assert await local.rows("LIST @%t") != []

    run(tmp_path, work)


def test_validation_mode_lists_every_record_that_cannot_be_loaded(tmp_path: Path) -> None:
    texts = {
        "a.csv": "1,2024-01-01,12:00\nx,2024-01-01,12:00\n3,no,12:00\n4,2024-01-01,never\n5,2\n",
        "b.csv": "6,2024-01-01,12:00\ny,no,never\n",
    }
    bad = [
        (number, f"{noun} '{text}' is not recognized", code, state)
        for number, noun, text, code, state in (
            (2, "Numeric value", "x", 100038, "22018"),
            (3, "Date", "no", 100040, "22007"),
            (4, "Time", "never", 100108, "22007"),
        )
    ]

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, d date, h time)")
        for name, text in texts.items():
            await local_sql.put_file(local, "@%t", name, text.encode())

        async def listed(mode: str) -> list[Any]:
            rows = await local.rows(f"COPY INTO t VALIDATION_MODE = {mode}")
            return [(row[1], row[9], row[0], row[6], row[7]) for row in rows]

        of_a = [("a.csv", *each) for each in bad]
        of_b = [("b.csv", 2, "Numeric value 'y' is not recognized", 100038, "22018")]
        errors_of_all = await listed("RETURN_ERRORS")
        assert errors_of_all[:3] == of_a
        assert errors_of_all[3][:2] == ("a.csv", 5)
        assert errors_of_all[3][3:] == (100080, "22000")
        assert errors_of_all[4:] == of_b
        assert (await refused(local, "COPY INTO t")).sqlstate == "22018"

        await local.rows("COPY INTO t FILES = ('a.csv') ON_ERROR = CONTINUE")
        assert await listed("RETURN_ERRORS") == of_b
        assert await listed("RETURN_ALL_ERRORS") == errors_of_all

        await local.run("TRUNCATE TABLE t")
        one = await local.rows("COPY INTO t VALIDATION_MODE = RETURN_1_ROWS")
        assert one == [("1", "2024-01-01", "12:00:00")]
        fault = await refused(local, "COPY INTO t VALIDATION_MODE = RETURN_2_ROWS")
        assert (fault.code, fault.sqlstate) == ("100038", "22018")
        only_b = "COPY INTO t FILES = ('b.csv') VALIDATION_MODE = "
        assert len(await local.rows(only_b + "RETURN_1_ROWS")) == 1
        assert (await refused(local, only_b + "RETURN_9_ROWS")).code == "100038"
        await local_sql.put_file(local, "@%t", "Z.csv", b"7,,\n8,,\n9,,\n")  # before b.csv
        both = "COPY INTO t FILES = ('Z.csv', 'b.csv') VALIDATION_MODE = "
        four = await local.rows(both + "RETURN_4_ROWS")
        assert [row[0] for row in four] == ["7", "8", "9", "6"]
        assert (await refused(local, both + "RETURN_5_ROWS")).code == "100038"
        assert await local.one("SELECT COUNT(*) FROM t") == 0

    run(tmp_path, work)


def test_validation_mode_does_not_pass_what_copy_refuses(tmp_path: Path) -> None:
    by_name = " MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE p (a number(2, 0))")
        await local_sql.put_file(local, "@%p", "a.parquet", parquet(a=[1, 2, 1000]))
        copy = f"COPY INTO p FILE_FORMAT = (TYPE = PARQUET){by_name}"
        assert await local.rows(f"{copy} VALIDATION_MODE = RETURN_2_ROWS") == [("1",), ("2",)]
        for mode in ("RETURN_ERRORS", "RETURN_3_ROWS"):
            fault = await refused(local, f"{copy} VALIDATION_MODE = {mode}")
            assert (fault.code, fault.sqlstate) == ("100039", "22003")

        await local.run("CREATE TABLE n (a int, b int not null)")
        await local_sql.put_file(local, "@%n", "a.csv", b"a\n1\n2\n")
        copy = f"COPY INTO n FILE_FORMAT = (TYPE = CSV PARSE_HEADER = TRUE){by_name}"
        listed = await local.rows(f"{copy} VALIDATION_MODE = RETURN_ERRORS")
        assert [(row[2], row[6], row[8]) for row in listed] == [
            (2, 100072, '"N"["B":2]'), (3, 100072, '"N"["B":2]')
        ]  # fmt: skip
        fault = await refused(local, f"{copy} VALIDATION_MODE = RETURN_1_ROWS")
        assert fault.code == (await refused(local, copy)).code == "100072"

    run(tmp_path, work)


def test_the_first_error_of_each_file_is_of_one_record(tmp_path: Path) -> None:
    long = "\u00fc" * 150

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, b int not null)")
        texts = {"a.csv": "1,1\n2,\nx,2\n,3\n", "b.csv": f"1,1\n{long},2\n3,\n", "c.csv": "4,4\n"}
        for name, text in texts.items():
            await local_sql.put_file(local, "@%t", name, text.encode())
        listed = await local.rows("COPY INTO t VALIDATION_MODE = RETURN_ERRORS")
        assert [(row[1], row[2], row[8]) for row in listed] == [
            ("a.csv", 2, '"T"["B":2]'),
            ("a.csv", 3, '"T"["A":1]'),
            ("b.csv", 2, '"T"["A":1]'),
            ("b.csv", 3, '"T"["B":2]'),
        ]
        answer = await local.rows("COPY INTO t ON_ERROR = CONTINUE")
        null = "NULL result in a non-nullable column 'B'"
        number = f"Numeric value '{long[:100]}' is not recognized"
        assert [(row[0], *row[3:]) for row in answer] == [
            ("a.csv", 2, 4, 2, null, 2, 1, '"T"["B":2]'),
            ("b.csv", 1, 3, 2, number, 2, 1, '"T"["A":1]'),
            ("c.csv", 1, 1, 0, None, None, None, None),
        ]
        assert await local.one("SELECT SUM(b) FROM t") == 9

    run(tmp_path, work)


def test_on_error_continue_names_the_value_that_it_cannot_leave_out(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (o object, n int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"{}|1\nnone|2\n{}|x\n")
        copy = "COPY INTO t FILE_FORMAT = (TYPE = CSV FIELD_DELIMITER = '|') ON_ERROR = CONTINUE"
        fault = await refused(local, copy)
        assert fault.code == "100069"
        assert "'x'" not in fault.message
        assert await local.one("SELECT COUNT(*) FROM t") == 0

    run(tmp_path, work)


def test_the_rows_of_validation_mode_are_texts_as_sql_shows_them(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (b boolean, x binary, f float, d date, v variant, n int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1,0aff,2,2024-01-02,x,\n")
        shown = await local.rows("COPY INTO t VALIDATION_MODE = RETURN_5_ROWS")
        assert shown == [("true", "0AFF", "2", "2024-01-02", "x", None)]
        await local.rows("COPY INTO t")
        texts = ", ".join(f"TO_VARCHAR({column})" for column in "bxfdvn")
        assert await local.rows(f"SELECT {texts} FROM t") == shown

    run(tmp_path, work)


def test_columns_of_another_count_are_refused_or_filled(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, b int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n2,3,4\n")
        assert (await refused(local, "COPY INTO t")).code == "100080"
        lenient = "FILE_FORMAT = (ERROR_ON_COLUMN_COUNT_MISMATCH = FALSE)"
        await local.rows(f"COPY INTO t {lenient}")
        assert await local.rows("SELECT * FROM t ORDER BY a") == [(1, None), (2, 3)]

    run(tmp_path, work)


def test_the_options_of_csv_are_honoured(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "CREATE FILE FORMAT f TYPE = CSV FIELD_DELIMITER = '|' SKIP_HEADER = 1"
            " TRIM_SPACE = TRUE"
            " FIELD_OPTIONALLY_ENCLOSED_BY = '\"' NULL_IF = ('-') DATE_FORMAT = 'DD/MM/YYYY'"
            " ENCODING = 'ISO-8859-1' BINARY_FORMAT = 'BASE64'"
        )
        await local.run("CREATE STAGE s FILE_FORMAT = f")
        await local.run("CREATE TABLE t (a varchar, d date, b binary)")
        await local_sql.put_file(
            local, "@s", "a.csv", 'a|d|b\n "é|x" | 31/12/2024|aGk=\n-|-|-\n'.encode("latin-1")
        )
        await local.rows("COPY INTO t FROM @s")
        rows = await local.rows("SELECT a, TO_VARCHAR(d), TO_VARCHAR(b) FROM t ORDER BY a")
        assert rows == [("é|x", "2024-12-31", "6869"), (None, None, None)]
        described = {row[0]: row[2] for row in await local.rows("DESCRIBE FILE FORMAT f")}
        assert described["FIELD_DELIMITER"] == "|"
        assert described["NULL_IF"] == "[-]"
        for option in (
            "TYPE = XML",
            "TYPE = AVRO REPLACE_INVALID_CHARACTERS = TRUE",
            "TYPE = JSON ENABLE_OCTAL = TRUE",
        ):
            assert (await refused(local, f"CREATE FILE FORMAT g {option}")).code == "000002"

    run(tmp_path, work)


def test_copy_reads_dates_by_the_sessions_format_unless_its_file_format_has_one(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, d date)")
        await local.run("ALTER SESSION SET DATE_INPUT_FORMAT = 'DD/MM/YYYY'")
        await local_sql.put_file(local, "@~", "a.csv", b"1,03/04/2024\n")
        await local_sql.put_file(local, "@~", "b.json", b'{"a": 2, "d": "03/04/2024"}')
        await local_sql.put_file(local, "@~", "c.csv", b"3,2024-04-03\n")
        await local.rows("COPY INTO t FROM @~/a.csv FILE_FORMAT = (DATE_FORMAT = AUTO)")
        await local.rows(
            "COPY INTO t FROM @~/b.json FILE_FORMAT = (TYPE = JSON)"
            " MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"
        )
        assert (await refused(local, "COPY INTO t FROM @~/c.csv")).code == "100040"
        await local.rows("COPY INTO t FROM @~/c.csv FILE_FORMAT = (DATE_FORMAT = 'YYYY-MM-DD')")
        rows = await local.rows("SELECT a, TO_VARCHAR(d) FROM t ORDER BY a")
        assert rows == [(number, "2024-04-03") for number in (1, 2, 3)]

    run(tmp_path, work)


def test_json_is_loaded_as_documents_and_by_the_names_of_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE v (doc variant)")
        await local.run("CREATE TABLE t (id int, name varchar, at date)")
        data = b'[{"id": 1, "name": "x", "at": "2024-01-02"},\n {"ID": 2, "name": null}]'
        await local_sql.put_file(local, "@~", "a.json", data)
        form = "FILE_FORMAT = (TYPE = JSON STRIP_OUTER_ARRAY = TRUE)"
        await local.rows(f"COPY INTO v FROM @~ {form}")
        assert await local.rows("SELECT doc:name::varchar FROM v ORDER BY 1") == [("x",), (None,)]
        assert (await refused(local, f"COPY INTO t FROM @~ {form}")).code == "002238"
        await local.rows(f"COPY INTO t FROM @~ {form} MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE")
        rows = await local.rows("SELECT id, name, TO_VARCHAR(at) FROM t ORDER BY id")
        assert rows == [(1, "x", "2024-01-02"), (2, None, None)]

    run(tmp_path, work)


def test_a_member_that_json_names_twice_is_an_error_unless_the_format_allows_it(
    tmp_path: Path,
) -> None:
    documents = [
        '{"a":1,"a":2}',
        '{"a":{"b":[{"c":1,"c":3}]}}',
        '{"a":2,"\\u0061":4}',
        '{"a":"\\u0022a\\u0022:1"}',
        '{"a":"\\u0022\\u0022","b":1,"b":2}',
    ]

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE v (doc variant)")
        await local_sql.put_file(local, "@~", "a.json", "\n".join(documents).encode())
        fault = await refused(local, "COPY INTO v FROM @~ FILE_FORMAT = (TYPE = JSON)")
        assert (fault.code, fault.sqlstate) == ("100069", "22P02")
        assert 'duplicate object attribute "a"' in fault.message
        loose = "FILE_FORMAT = (TYPE = JSON) ON_ERROR = CONTINUE"
        (answer,) = await local.rows(f"COPY INTO v FROM @~ {loose}")
        assert answer[1:6] == ("PARTIALLY_LOADED", 5, 1, 5, 4)
        assert await local.one("SELECT doc:a::varchar FROM v") == '"a":1'

        await local.run("TRUNCATE TABLE v")
        allowing = "FILE_FORMAT = (TYPE = JSON ALLOW_DUPLICATE = TRUE)"
        await local.rows(f"COPY INTO v FROM @~ {allowing}")
        shown = await local.rows("SELECT TO_JSON(doc) FROM v")
        assert [text for (text,) in shown] == [
            '{"a":2}', '{"a":{"b":[{"c":3}]}}', '{"a":4}', '{"a":"\\"a\\":1"}',
            '{"a":"\\"\\"","b":2}',
        ]  # fmt: skip

    run(tmp_path, work)


def test_options_of_documents_change_the_values_that_are_matched_by_name(tmp_path: Path) -> None:
    data = (
        b'{"s":" x ","d":"31/12/2024","h":"7.05","m":"20240102030405","b":"AQI=","n":"NA"}\n'
        b'{"s":"NA","d":"-","h":null,"b":" - ","n":5}\n'
    )
    options = (
        "TYPE = JSON DATE_FORMAT = 'DD/MM/YYYY' TIME_FORMAT = 'HH24.MI'"
        " TIMESTAMP_FORMAT = 'YYYYMMDDHH24MISS' BINARY_FORMAT = BASE64"
        " TRIM_SPACE = TRUE NULL_IF = ('NA', '-', '\\'')"
    )

    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "CREATE TABLE t (s varchar, d date, h time, m timestamp, b binary, n int, v variant)"
        )
        await local.run("CREATE TABLE docs (v variant)")
        await local_sql.put_file(local, "@~", "a.json", data)
        by_name = f"FILE_FORMAT = ({options}) MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"
        await local.rows(f"COPY INTO t FROM @~ {by_name}")
        rows = await local.rows(
            "SELECT s, TO_VARCHAR(d), TO_VARCHAR(h), TO_VARCHAR(m, 'YYYY-MM-DD HH24:MI:SS'),"
            " TO_VARCHAR(b), n FROM t ORDER BY s"
        )
        assert rows == [
            ("x", "2024-12-31", "07:05:00", "2024-01-02 03:04:05", "0102", None),
            (None, None, None, None, None, 5),
        ]
        # As in Snowflake, a whole document is loaded as it is.
        await local.rows(f"COPY INTO docs FROM @~ FILE_FORMAT = ({options})")
        assert await local.rows("SELECT v:s::varchar FROM docs ORDER BY 1") == [(" x ",), ("NA",)]

        await local.run("TRUNCATE TABLE t")
        wrong = by_name.replace("DD/MM/YYYY", "MM/DD/YYYY")
        fault = await refused(local, f"COPY INTO t FROM @~ {wrong}")
        assert (fault.code, fault.sqlstate) == ("100040", "22007")

    run(tmp_path, work)


def test_texts_of_avro_that_are_matched_by_name_are_trimmed_and_null_by_the_format(
    tmp_path: Path,
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}
    texts = (" x ", " NA", "y")
    data = avrofiles.container(schema, [(3, b"".join(map(avrofiles.text, texts)))])

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (s varchar)")
        await local_sql.put_file(local, "@%t", "a.avro", data)
        form = "FILE_FORMAT = (TYPE = AVRO TRIM_SPACE = TRUE NULL_IF = ('NA'))"
        await local.rows(f"COPY INTO t {form} MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE")
        assert await local.rows("SELECT s FROM t ORDER BY s") == [("x",), ("y",), (None,)]

    run(tmp_path, work)


def test_parquet_is_loaded_by_names_and_by_transformations(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, b varchar, c array)")
        one = parquet(a=[1], b=["x"], c=[[1, 2]])
        await local_sql.put_file(local, "@~", "one.parquet", one)
        await local_sql.put_file(local, "@~", "two.parquet", parquet(B=["y"]))
        form = "FILE_FORMAT = (TYPE = PARQUET)"
        await local.rows(
            f"COPY INTO t FROM @~ {form} MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE"
            " FILES = ('one.parquet')"
        )
        await local.rows(
            "COPY INTO t (b, a) FROM (SELECT UPPER($1:B::varchar), 7 FROM @~ x)"
            f" {form} PATTERN = 'two.*'"
        )
        rows = await local.rows("SELECT a, b, c[1]::int FROM t ORDER BY a")
        assert rows == [(1, "x", 2), (7, "Y", None)]

    run(tmp_path, work)


def test_a_pipe_or_task_is_refused_by_its_name_before_a_file_is_read(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for name in ("PIPE", "TASK"):
            text = f"create or replace {name} p as copy into t from (select $1 from @nowhere)"
            error = await refused(local, text)
            assert (error.code, name in error.message) == ("000002", True)

    run(tmp_path, work)


def test_a_table_is_created_by_the_schema_of_its_files(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create file format p type = parquet")
        data = parquet(
            id=pa.array([1], pa.int64()), Name=["x"], n=pa.array([decimal.Decimal("1.5")])
        )
        await local_sql.put_file(local, "@~", "a.parquet", data)
        schema = "table(infer_schema(location => '@~/a.parquet', file_format => 'p'))"
        rows = f"select array_agg(object_construct(*)) from {schema}"
        await local.run(f"create or replace table t using template ({rows}) comment = 'files'")
        described = await local.rows("describe table t")
        assert [(row[0], row[1]) for row in described] == [
            ("id", "NUMBER(19,0)"),
            ("Name", "VARCHAR(16777216)"),
            ("n", "NUMBER(2,1)"),
        ]
        copy = "copy into t from @~/a.parquet file_format = (format_name = p)"
        await local.run(f"{copy} match_by_column_name = case_insensitive")
        assert await local.rows('select id, "Name", n from t') == [(1, "x", decimal.Decimal("1.5"))]
        await local_sql.put_file(local, "@~", "a.csv", b"1,2\n")
        await local.run("create table victim (a int)")
        await local.run("set q = 'create table u using template (execute immediate $q)'")
        for query in (
            "select 1", "select [1]", "select array_construct() from (select 1)",
            f"select [1] from {schema}", "select $1, $2 from @~/a.csv", "drop table victim",
            "insert into victim values (1)", "execute immediate $q", "show tables",
        ):  # fmt: skip
            error = await refused(local, f"create table u using template ({query})")
            assert (error.code, "USING TEMPLATE" in error.message) == ("000002", True)
        assert (await refused(local, "select * from u")).code == "002003"
        assert await local.rows("select * from victim") == []
        assert list((local.lake.storage.path / "tmp").glob("*/*.parquet")) == []

    run(tmp_path, work)


def test_stages_and_file_formats_change_their_comments_and_options(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create stage s comment = 'old'")
        await local.run("create file format f type = csv field_delimiter = ';' skip_header = 1")
        await local_sql.put_file(local, "@s", "a.csv", b"h\n1|2\n")
        await local.run("alter stage s set file_format = (format_name = f) comment = 'new'")
        await local.run("alter file format f set field_delimiter = '|', comment = 'pipes'")
        # A stage has the options that the format had.
        assert await local.rows("select $1, $2 from @s") == [("1|2", None)]
        await local.run("alter stage s set file_format = (format_name = f)")
        assert await local.rows("select $1, $2 from @s") == [("1", "2")]
        rows = await local.rows("describe file format f")
        shown = {row[0]: row[2] for row in rows}
        assert (shown["FIELD_DELIMITER"], shown["SKIP_HEADER"]) == ("|", "1")
        comments = "select stage_name, comment from information_schema.stages"
        assert await local.rows(comments) == [("S", "new")]
        await local.run("comment on stage s is 'again'")
        assert await local.rows(comments) == [("S", "again")]
        await local.run("alter stage s unset comment")
        await local.run("comment on file format f is 'lines'")
        assert await local.rows(comments) == [("S", None)]
        formats = "select file_format_name, comment from information_schema.file_formats"
        assert await local.rows(formats) == [("F", "lines")]
        await local.run("alter stage if exists nowhere set comment = 'x'")
        for text, code in {
            "alter stage nowhere set comment = 'x'": "002003",
            "alter stage s rename to t": "000002",
            "alter stage s set url = 's3://b/'": "000002",
            "alter file format f set field_delimiter = ';' nosuch = 1": "001008",
            "alter file format f set type = json": "000002",
        }.items():
            assert (await refused(local, text)).code == code
        assert await local.rows("select $1, $2 from @s") == [("1", "2")]

    run(tmp_path, work)


def test_invalid_characters_of_parquet_are_replaced_or_refused(tmp_path: Path) -> None:
    octets = pa.py_buffer(b"a\xffbok")
    offsets = pa.py_buffer(struct.pack("<4i", 0, 3, 5, 5))
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, octets])
    file = parquet(id=[1, 2, 3], t=texts, b=pa.array([b"\xc3", b"\xc3\xa9", None]))

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (id int, t varchar, b varchar)")
        await local_sql.put_file(local, "@~", "a.parquet", file)
        copy = "COPY INTO t FROM @~ MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE FILE_FORMAT = (TYPE ="
        assert (await refused(local, f"{copy} PARQUET)")).code == "100144"
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        await local.run(f"{copy} PARQUET REPLACE_INVALID_CHARACTERS = TRUE)")
        assert await local.rows("SELECT t, b FROM t ORDER BY id") == [
            ("a\ufffdb", "\ufffd"),
            ("ok", "é"),
            ("", None),
        ]
        form = "CREATE FILE FORMAT f TYPE = PARQUET REPLACE_INVALID_CHARACTERS = TRUE"
        await local.run(form)
        rows = await local.rows("SELECT $1:t::varchar FROM @~ (FILE_FORMAT => 'f') ORDER BY 1")
        assert rows == [("",), ("a\ufffdb",), ("ok",)]

    run(tmp_path, work)


def test_staged_files_are_queried_with_their_metadata(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE FILE FORMAT f TYPE = CSV")
        await local.run("CREATE STAGE s")
        await local_sql.put_file(local, "@s/x", "a.csv", b"1,one\n2,two\n")
        rows = await local.rows(
            "SELECT t.$1::int + 1, $2, METADATA$FILENAME, METADATA$FILE_ROW_NUMBER"
            " FROM @s/x (FILE_FORMAT => 'f', PATTERN => '.*csv') t ORDER BY 1"
        )
        assert rows == [(2, "one", "x/a.csv", 1), (3, "two", "x/a.csv", 2)]
        await local.run("CREATE TABLE t AS SELECT $2 AS b FROM @s")
        await local.run("INSERT INTO t SELECT $2 FROM @s")
        assert await local.one("SELECT COUNT(*) FROM t") == 4
        assert list((local.lake.storage.path / "tmp").glob("*/*.parquet")) == []

    run(tmp_path, work)


def test_infer_schema_names_the_columns_of_files(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE FILE FORMAT p TYPE = PARQUET")
        await local.run("CREATE FILE FORMAT c TYPE = CSV PARSE_HEADER = TRUE")
        data = parquet(id=[1], name=["x"], at=pa.array([0], pa.timestamp("us")), l=[[1]])
        await local_sql.put_file(local, "@~", "a.parquet", data)
        await local_sql.put_file(
            local, "@~", "a.csv", b"id,price,day\n1,2.50,2024-01-01\n10,3,2024-01-02\n"
        )
        infer = "SELECT column_name, type FROM TABLE(INFER_SCHEMA(LOCATION => '@~', FILES => '{}',"
        rows = await local.rows(infer.format("a.parquet") + " FILE_FORMAT => 'p'))")
        assert rows == [
            ("id", "NUMBER(19, 0)"),
            ("name", "TEXT"),
            ("at", "TIMESTAMP_NTZ"),
            ("l", "VARIANT"),
        ]
        # Bytes are BINARY, though a query reads them as text unless BINARY_AS_TEXT is FALSE.
        await local_sql.put_file(local, "@~", "b.parquet", parquet(b=[b"x"]))
        rows = await local.rows(infer.format("b.parquet") + " FILE_FORMAT => 'p'))")
        assert rows == [("b", "BINARY")]
        read = "SELECT $1:b::VARCHAR FROM @~/b.parquet (FILE_FORMAT => 'p')"
        assert await local.rows(read) == [("x",)]
        await local.run("CREATE TABLE t (b BINARY)")
        await local.run(
            "COPY INTO t FROM (SELECT $1:b::BINARY FROM @~/b.parquet)"
            " FILE_FORMAT = (TYPE = PARQUET BINARY_AS_TEXT = FALSE)"
        )
        assert await local.rows("SELECT b FROM t") == [(b"x",)]
        rows = await local.rows(infer.format("a.csv") + " FILE_FORMAT => 'c'))")
        assert rows == [("id", "NUMBER(2, 0)"), ("price", "NUMBER(3, 2)"), ("day", "DATE")]
        with pytest.raises(errors.SqlError, match="MAX_RECORDS_PER_FILE") as refused:
            await local.rows(
                infer.format("a.csv") + " FILE_FORMAT => 'c', MAX_RECORDS_PER_FILE => 1))"
            )
        assert refused.value.code == "000002"

    run(tmp_path, work)


BAD_FILES = {
    "cut.gz": (gzip.compress(b"1\n" * 1000)[:-9], "CSV"),
    "not-gz.gz": (b"\x1f\x8b" + b"x" * 50, "CSV"),
    "bad-utf8": (b"1\n\xff\xfe\n", "CSV"),
    "bomb.gz": (gzip.compress(bytes(40 << 20)), "CSV"),
    "not.parquet": (b"PAR1 not parquet PAR1", "PARQUET"),
    "cut.parquet": (parquet(a=list(range(1000)))[:-200], "PARQUET"),
    "deep.json": (b"[" * 100_000, "JSON"),
    "bad.json": (b'{"a": 1}\n{"a": nope}\n', "JSON"),
    "not.orc": (b"ORC not orc", "ORC"),
    "empty.parquet": (b"", "PARQUET"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_damaged_file_is_an_error_that_names_it_and_loads_nothing(
    tmp_path: Path, name: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        data, format_type = BAD_FILES[name]
        await local.run(
            "CREATE TABLE t (a variant)" if format_type != "CSV" else "CREATE TABLE t (a varchar)"
        )
        await local_sql.put_file(local, "@%t", name, data)
        fault = await refused(local, f"COPY INTO t FILE_FORMAT = (TYPE = {format_type})")
        assert fault.code.startswith("100"), fault.message
        assert name in fault.message
        assert str(tmp_path) not in fault.message
        assert await local.one("SELECT COUNT(*) FROM t") == 0
        rows = await local.rows(
            f"COPY INTO t FILE_FORMAT = (TYPE = {format_type}) ON_ERROR = SKIP_FILE"
        )
        assert [row[1] for row in rows] == ["LOAD_FAILED"]

    run(tmp_path, work)


def test_loads_are_rows_of_the_commit_that_the_pipeline_reads_too(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        await local.rows("COPY INTO t")
        pointer = local.lake.tables.pointer(local.lake.ident("ns.t"))
        place = local.lake.store.place("lake")
        with local.lake.store.index.view() as view:
            page = loads.page(view, place, pointer.object_uuid)
        assert [load.source for load in page.loads] == [
            f"s3://{stages.BUCKET}/tables/{pointer.object_uuid}/a.csv"
        ]

    run(tmp_path, work)


async def stored(local: local_sql.LocalSql, prefix: str) -> dict[str, bytes]:
    """Return the files of a stage by their names."""
    objects = local.lake.storage.objects
    page = objects.list(stages.BUCKET, prefix=prefix)
    return {info.key.removeprefix(prefix): objects.read(info) for info in page.objects}


def test_unloaded_files_are_those_that_copy_loads_again(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        columns = "(a int, b varchar, c timestamp_ntz, d number(9,2))"
        await local.run(f"CREATE TABLE t {columns}")
        await local.run(
            "INSERT INTO t VALUES (1, 'x,\"y', '2024-01-02 03:04:05.5', 1.50),"
            " (2, NULL, NULL, NULL)"
        )
        for number, options in enumerate(
            (
                "TYPE = CSV",
                "TYPE = CSV COMPRESSION = NONE FIELD_OPTIONALLY_ENCLOSED_BY = '\"'",
                "TYPE = CSV COMPRESSION = ZSTD FIELD_DELIMITER = '|'",
                "TYPE = PARQUET",
            )
        ):
            await local.run(f"CREATE STAGE s{number} FILE_FORMAT = ({options})")
            header = "HEADER = TRUE" if "PARQUET" in options else ""
            (answer,) = await local.rows(f"COPY INTO @s{number}/x/ FROM t {header}")
            assert answer[0] == 2
            await local.run(f"CREATE TABLE u{number} {columns}")
            by_name = "MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE" if header else ""
            await local.rows(f"COPY INTO u{number} FROM @s{number} {by_name}")
            expected = await local.rows("SELECT * FROM t ORDER BY a")
            assert await local.rows(f"SELECT * FROM u{number} ORDER BY a") == expected, options

    run(tmp_path, work)


PARTITIONED = "SELECT * FROM VALUES (1, 'de'), (2, 'fr'), (3, 'de'), (4, NULL), (5, '') v(a, land)"


def test_unload_with_partition_by_writes_the_rows_of_each_value_into_a_folder(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(f"CREATE TABLE t AS {PARTITIONED}")
        form = "FILE_FORMAT = (TYPE = CSV COMPRESSION = NONE)"
        by = "PARTITION BY 'land=' || land"
        (answer,) = await local.rows(f"COPY INTO @~/x FROM t {by} {form} HEADER = TRUE")
        assert answer[0] == 5
        query_id = local.last_id
        (root,) = {row[0].split("/")[0] for row in await local.rows("LIST @~")}
        assert root == "x"
        files = await stored(
            local, local.stages.stage(local.session, USER_STAGE, writes=False).prefix
        )
        assert {name.split("data_")[0]: data for name, data in files.items()} == {
            "x/land=/": b"A,LAND\n5,\n",
            "x/land=de/": b"A,LAND\n1,de\n3,de\n",
            "x/land=fr/": b"A,LAND\n2,fr\n",
            "x/__NULL__/": b"A,LAND\n4,\\N\n",
        }
        assert all(f"data_{query_id}_0_0_" in name for name in files)
        await local.rows("REMOVE @~")

        text = (
            f"COPY INTO @~ FROM (SELECT a FROM t ORDER BY a) PARTITION BY (a % 2)::varchar {form};"
        )
        await local.rows(text)
        files = await stored(
            local, local.stages.stage(local.session, USER_STAGE, writes=False).prefix
        )
        lines = {name.split("data_")[0]: sorted(data.split()) for name, data in files.items()}
        assert lines == {"0/": [b"2", b"4"], "1/": [b"1", b"3", b"5"]}

    run(tmp_path, work)


@pytest.mark.parametrize("format_type", ["PARQUET", "CSV", "JSON"])
def test_files_of_partitions_hold_their_own_rows_and_none_is_lost(
    tmp_path: Path, format_type: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        rows = "SELECT SEQ4() AS n, n % 7 AS part FROM TABLE(GENERATOR(ROWCOUNT => 30000))"
        await local.run(f"CREATE TABLE t AS {rows}")
        query = "SELECT object_construct('n', n, 'part', part) AS o FROM t"
        item = "o:part" if format_type == "JSON" else "part"
        source = query if format_type == "JSON" else "SELECT * FROM t"
        await local.run(f"CREATE STAGE s FILE_FORMAT = (TYPE = {format_type})")
        await local.rows(
            f"COPY INTO @s/p/ FROM ({source}) PARTITION BY ({item})::varchar MAX_FILE_SIZE = 20000"
            " DETAILED_OUTPUT = TRUE" + (" HEADER = TRUE" if format_type == "PARQUET" else "")
        )
        value = {"PARQUET": "$1:part", "CSV": "$2", "JSON": "$1:part"}[format_type]
        number = {"PARQUET": "$1:n", "CSV": "$1", "JSON": "$1:n"}[format_type]
        if format_type == "PARQUET":
            value, number = "$1:PART", "$1:N"
        assert await local.rows(
            f"SELECT COUNT(*), COUNT(DISTINCT {number}::int),"
            f" COUNT_IF(split_part(METADATA$FILENAME, '/', 2) <> {value}::varchar) FROM @s/p/"
        ) == [(30000, 30000, 0)]
        assert len(await local.rows("LIST @s/p/")) >= 7

    run(tmp_path, work)


BAD_PARTITIONS = {
    "1": "001008",
    "'..'": "001008",
    "'a//b'": "001008",
    "'/a'": "001008",
    "'a\\nb'": "001008",
    "repeat('x', 701)": "001008",
    "nothing": "000904",
    "'a' SINGLE = TRUE": "001003",
    "'a' OVERWRITE = TRUE": "001003",
    "'a' INCLUDE_QUERY_ID = FALSE": "001003",
    "FILE_FORMAT = (TYPE = CSV)": "001003",
    "": "001003",
}


@pytest.mark.parametrize("partition", BAD_PARTITIONS)
def test_a_partition_that_is_no_path_is_refused_and_nothing_is_stored(
    tmp_path: Path, partition: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        text = f"COPY INTO @~ FROM ({PARTITIONED}) PARTITION BY {partition}"
        assert (await refused(local, text)).code == BAD_PARTITIONS[partition]
        assert await local.rows("LIST @~") == []

    run(tmp_path, work)


def test_unload_names_its_files_and_overwrites_on_demand_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        table = "CREATE TABLE t AS SELECT 1 AS a, 'é' AS b"
        await local.run(table)
        form = "FILE_FORMAT = (TYPE = CSV COMPRESSION = NONE)"
        unload = f"COPY INTO @%t/one.csv FROM (SELECT b, a FROM t) {form} SINGLE = TRUE"
        await local.rows(unload + " HEADER = TRUE")
        uuid = local.lake.tables.pointer(local.lake.ident("ns.t")).object_uuid
        files = await stored(local, f"tables/{uuid}/")
        assert files == {"one.csv": "B,A\né,1\n".encode()}
        fault = await refused(local, unload)
        assert fault.code == "001030"
        assert await stored(local, f"tables/{uuid}/") == files
        await local.rows(unload + " OVERWRITE = TRUE")
        assert await stored(local, f"tables/{uuid}/") == {"one.csv": "é,1\n".encode()}
        await local.rows(
            "COPY INTO @~/j FROM (SELECT OBJECT_CONSTRUCT('k', a) FROM t)"
            " FILE_FORMAT = (TYPE = JSON)"
        )
        ((name, *_),) = await local.rows("LIST @~")
        assert name == "j_0_0_0.json.gz"
        await local.run("CREATE FILE FORMAT j TYPE = JSON")
        assert await local.one("SELECT $1:k::int FROM @~ (FILE_FORMAT => 'j')") == 1
        nothing = "SELECT $1:k::int FROM @~ (FILE_FORMAT => 'j', PATTERN => 'none.*')"
        assert await local.rows(nothing) == []
        assert list((local.lake.storage.path / "tmp").glob("*/part*")) == []

    run(tmp_path, work)


@pytest.mark.parametrize("compression", ["NONE", "GZIP", "ZSTD"])
def test_unloaded_files_of_text_are_not_larger_than_max_file_size(
    tmp_path: Path, compression: str
) -> None:
    rows, most, block = 30_000, 100_000, 64 << 10
    generated = f"TABLE(GENERATOR(ROWCOUNT => {rows}))"
    source = f"SELECT SEQ4() AS n, SHA2(SEQ4()::VARCHAR, 256) AS s FROM {generated}"
    form = f"FILE_FORMAT = (COMPRESSION = {compression})"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        unload = f"COPY INTO @s/x FROM ({source}) {form} HEADER = TRUE MAX_FILE_SIZE = "
        await local.rows(f"{unload} {most}")
        sizes = [row[1] for row in await local.rows("LIST @s")]
        assert len(sizes) > 5
        assert max(sizes) <= most + (0 if compression == "NONE" else block)
        assert sorted(sizes)[1] > most // 2  # but for the last file
        await local.run("CREATE FILE FORMAT f TYPE = CSV SKIP_HEADER = 1")
        read = "SELECT COUNT(DISTINCT $1), SUM($1::INT), COUNT($2) FROM @s (FILE_FORMAT => f)"
        assert await local.rows(read) == [(rows, rows * (rows - 1) // 2, rows)]

        await local.rows("REMOVE @s")
        few = f"COPY INTO @s/y FROM ({source} LIMIT 3) {form} HEADER = TRUE MAX_FILE_SIZE = 1"
        await local.rows(few)
        expected = 3 if compression == "NONE" else 1  # one block of text
        assert len(await local.rows("LIST @s")) == expected
        assert await local.rows(read) == [(3, 3, 3)]

    run(tmp_path, work)


@pytest.mark.parametrize("form", ["TYPE = CSV COMPRESSION = NONE", "TYPE = PARQUET"])
def test_the_next_batch_of_rows_begins_a_file_where_one_is_full(tmp_path: Path, form: str) -> None:
    two_batches = "SELECT REPEAT('x', 60) UNION ALL SELECT REPEAT('y', 60)"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        unload = f"COPY INTO @s FROM ({two_batches}) FILE_FORMAT = ({form}) MAX_FILE_SIZE = 100"
        await local.rows(unload)
        assert len(await local.rows("LIST @s")) == 2
        await local.rows(f"{unload} SINGLE = TRUE OVERWRITE = TRUE")
        assert len(await local.rows("LIST @s")) == 3

    run(tmp_path, work)


def test_an_unload_that_is_validated_returns_its_rows_and_stores_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int, b varchar)")
        await local.run("INSERT INTO t VALUES (1, 'x'), (2, NULL)")
        await local.run("CREATE STAGE s")
        validated = "VALIDATION_MODE = RETURN_ROWS FILE_FORMAT = (TYPE = CSV) HEADER = TRUE"
        assert await local.rows(f"COPY INTO @s/x FROM t {validated}") == [(1, "x"), (2, None)]
        query = "(SELECT b, a + ? AS c FROM t WHERE a = ?)"
        values = {"1": {"type": "FIXED", "value": "10"}, "2": {"type": "FIXED", "value": "1"}}
        bound = bindings.parse(values)
        outcome = await local.run(f"COPY INTO @s FROM {query} {validated}", bindings=bound)
        assert [column.name for column in outcome.columns] == ["B", "C"]
        described = await local.run(f"COPY INTO @s FROM t {validated}", describe_only=True)
        assert [column.name for column in described.columns] == ["A", "B"]
        assert await local.rows("LIST @s") == []
        for text, code in (
            (f"COPY INTO @s FROM absent {validated}", "002003"),
            (f"COPY INTO @s FROM (SELECT nope FROM t) {validated}", "000904"),
            (f"COPY INTO @s FROM (DROP TABLE t) {validated}", "000002"),
            (f"COPY INTO @s FROM t PARTITION BY (b) {validated}", "001003"),
            ("COPY INTO @s FROM t VALIDATION_MODE = RETURN_ERRORS", "001008"),
        ):
            assert (await refused(local, text)).code == code, text
        assert await local.one("SELECT COUNT(*) FROM t") == 2

    run(tmp_path, work)


def test_a_failed_unload_leaves_no_file(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t AS SELECT 'x' AS a")
        with pytest.raises(errors.SqlError):
            await local.rows("COPY INTO @%t FROM (SELECT a::int FROM t)")
        assert await local.rows("LIST @%t") == []

    run(tmp_path, work)


@pytest.mark.parametrize("operation", ["adopt", "put"])
def test_an_unload_that_fails_midway_leaves_the_files_that_it_was_to_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        unload = (
            "COPY INTO @s/f_ FROM (SELECT seq4(), uuid_string() FROM TABLE(GENERATOR(ROWCOUNT =>"
            " 40000))) FILE_FORMAT = (TYPE = CSV COMPRESSION = NONE) MAX_FILE_SIZE = 20000"
            " OVERWRITE = TRUE"
        )
        await local.rows(
            "COPY INTO @s/f_ FROM (SELECT 'old') FILE_FORMAT = (TYPE = CSV COMPRESSION = NONE)"
        )
        before = await local.rows("LIST @s")
        owner: Any = blobs.Blobs if operation == "adopt" else objects.Objects
        work_of, calls = getattr(owner, operation), 0

        async def failing(self: Any, *arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 3:
                if operation == "put":
                    await local.lake.storage.blobs.discard(arguments[2])
                raise storage_errors.DiskFull("no room")
            return await work_of(self, *arguments, **named)

        with monkeypatch.context() as patched:
            patched.setattr(owner, operation, failing)
            with pytest.raises((errors.SqlError, storage_errors.DiskFull)):
                await local.rows(unload)
        after = await local.rows("LIST @s")
        assert [row[0] for row in after] == [row[0] for row in before]
        assert (after == before) is (operation == "adopt")
        assert await local.one("SELECT COUNT(*) FROM @s") > 0

    run(tmp_path, work)


def test_a_text_that_begins_with_an_at_sign_is_a_text(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a varchar, b varchar)")
        await local.run("INSERT INTO t VALUES ('x', '@bob'), ('y', '@x/y')")
        rows = await local.rows("SELECT a, '@s' FROM t WHERE b IN ('z', '@bob')")
        assert rows == [("x", "@s")]

    run(tmp_path, work)


def test_a_file_that_was_loaded_in_part_is_not_loaded_again(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\nx\n3\n")
        await local.rows("COPY INTO t ON_ERROR = CONTINUE")
        nothing = [("Copy executed with 0 files processed.",)]
        assert await local.rows("COPY INTO t ON_ERROR = CONTINUE") == nothing
        assert await local.one("SELECT COUNT(*) FROM t") == 2

    run(tmp_path, work)


def test_purge_removes_a_loaded_file_when_its_rows_are_committed(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        for end, count, files in (("ROLLBACK", 0, 1), ("COMMIT", 1, 0)):
            await local.run("BEGIN")
            await local.rows("COPY INTO t PURGE = TRUE")
            assert len(await local.rows("LIST @%t")) == 1
            await local.run(end)
            assert await local.one("SELECT COUNT(*) FROM t") == count
            assert len(await local.rows("LIST @%t")) == files

    run(tmp_path, work)


def test_purge_leaves_a_newer_file_of_the_name_and_files_that_were_not_loaded_whole(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        await local_sql.put_file(local, "@%t", "b.csv", b"1\n")
        await local.run("BEGIN")
        await local.rows("COPY INTO t PURGE = TRUE")
        await local_sql.put_file(local, "@%t", "a.csv", b"2\n")
        await local.run("COMMIT")
        await local_sql.put_file(local, "@%t", "bad.csv", b"x\n")
        await local_sql.put_file(local, "@%t", "half.csv", b"3\nx\n")
        await local.rows("COPY INTO t PURGE = TRUE ON_ERROR = CONTINUE FILES = ('bad.csv')")
        await local.rows("COPY INTO t PURGE = TRUE ON_ERROR = CONTINUE FILES = ('half.csv')")
        assert [row[0] for row in await local.rows("LIST @%t")] == ["a.csv", "bad.csv", "half.csv"]
        assert await local.rows("SELECT a FROM t ORDER BY a") == [(1,), (1,), (3,)]

    run(tmp_path, work)


def test_the_stage_of_a_dropped_table_is_emptied_and_one_that_can_be_restored_keeps_it(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        names = ("live", "restorable", "purged")
        for name in names:
            await local.run(f"CREATE TABLE {name} (a int)")
            await local_sql.put_file(local, f"@%{name}", f"{name}.csv", b"1\n")
        await local.lake.tables.drop(local.lake.ident("ns.restorable"), by="me")
        await local.lake.tables.drop(local.lake.ident("ns.purged"), purge=True, by="me")
        await local.stages.sweep(lambda _: True)
        infos = local.lake.storage.objects.list(stages.BUCKET).objects
        left = {info.key.rpartition("/")[2] for info in infos}
        assert left == {"live.csv", "restorable.csv"}

    run(tmp_path, work)


def test_a_repeated_drop_or_unload_gets_the_first_answer_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        unload = "COPY INTO @s/x FROM (SELECT 1 AS a) DETAILED_OUTPUT = TRUE"
        await local.run("CREATE STAGE s")
        first = await local.rows(unload)
        unload_id = local.last_id
        await local_sql.put_file(local, "@s/x_0_0_0.csv.gz", "other", b"")
        before = await local.rows("LIST @s")
        assert await local.rows(unload, query_id=unload_id) == first
        assert await local.rows("LIST @s") == before
        assert (await refused(local, unload)).code == "001030"
        dropped = await local.rows("DROP STAGE s")
        drop_id = local.last_id
        await local.run("CREATE STAGE s")
        assert await local.rows("DROP STAGE s", query_id=drop_id) == dropped
        assert await local.rows("LIST @s") == []
        assert (await refused(local, "DROP STAGE nosuch")).code == "002003"

    run(tmp_path, work)


def test_an_unload_that_was_cut_off_replaces_its_own_files_when_it_is_repeated(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        unload = "COPY INTO @s/x FROM (SELECT 1 AS a)"
        await local.run("CREATE STAGE s")
        keep_reply = local.stages.keep_reply

        async def stopped(*_: Any) -> None:
            raise RuntimeError("the server stops here")

        local.stages.keep_reply = stopped  # type: ignore[method-assign]  # a seam
        with pytest.raises(RuntimeError):
            await local.rows(unload)
        local.stages.keep_reply = keep_reply  # type: ignore[method-assign]
        assert len(await local.rows(unload, query_id=local.last_id)) == 1
        assert len(await local.rows("LIST @s")) == 1

    run(tmp_path, work)


def test_documents_without_their_nulls_keep_the_digits_of_their_numbers(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE v (doc variant)")
        await local_sql.put_file(
            local, "@%v", "a.json", b'{"a": 1234567890123456789.125, "b": null}'
        )
        await local.rows("COPY INTO v FILE_FORMAT = (TYPE = JSON STRIP_NULL_VALUES = TRUE)")
        assert await local.one("SELECT doc:a::number(38, 3) FROM v") == decimal.Decimal(
            "1234567890123456789.125"
        )
        assert await local.one("SELECT COUNT(doc:b) FROM v") == 0

    run(tmp_path, work)


def test_creating_a_stage_commits_the_open_transaction_as_all_ddl_does(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE TABLE t (a int)")
        for number, text in enumerate(("STAGE s", "FILE FORMAT f TYPE = CSV"), start=1):
            await local.run("BEGIN")
            await local.run("INSERT INTO t VALUES (1)")
            await local.run(f"CREATE {text}")
            await local.run("ROLLBACK")
            assert await local.one("SELECT COUNT(*) FROM t") == number

    run(tmp_path, work)


def test_describing_a_query_of_staged_files_decodes_none_of_them(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("CREATE STAGE s")
        await local.run("CREATE FILE FORMAT pq TYPE = PARQUET")
        await local.run("CREATE FILE FORMAT js TYPE = JSON")
        await local_sql.put_file(local, "@s/broken", "a.csv.gz", gzip.compress(b"1\n" * 100)[:-12])
        await local_sql.put_file(local, "@s/pq", "a.parquet", parquet(a=[1], b=["x"]))

        async def described(text: str) -> list[tuple[str, str]]:
            outcome = await local.run(text, describe_only=True)
            return [(column.name, column.type) for column in outcome.columns]

        assert (await refused(local, "SELECT $1, $2 FROM @s/broken")).code == "100064"
        assert await described("SELECT $1 a, $2::int b, metadata$filename c FROM @s/broken") == [
            ("A", "text"), ("B", "fixed"), ("C", "text"),
        ]  # fmt: skip
        js = "@s/broken (FILE_FORMAT => 'js')"
        assert await described(f"SELECT $1 a, $1:x::int b FROM {js}") == [
            ("A", "variant"), ("B", "fixed"),
        ]  # fmt: skip
        inferred = "TABLE(INFER_SCHEMA(LOCATION => '@s/broken', FILE_FORMAT => 'js'))"
        assert len(await described(f"SELECT * FROM {inferred}")) == 6
        for text in ("$1:a::int a, $1:b::varchar b", "$1 a", "$1:a a, $1:nosuch b"):
            text = f"SELECT {text} FROM @s/pq (FILE_FORMAT => 'pq')"
            outcome = await local.run(text)
            assert outcome.batches is not None
            assert [batch.num_rows async for batch in outcome.batches] == [1]
            columns = outcome.columns
            assert await described(text) == [(each.name, each.type) for each in columns]

    run(tmp_path, work)


def test_dropping_a_stage_commits_the_open_transaction_unless_it_is_temporary(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        for number, word in enumerate(("", "temporary")):
            await local.run(f"create {word} stage dropped")
            await local.run("begin")
            await local.run(f"insert into t values ({number})")
            await local.run("drop stage dropped")
            await local.run("rollback")
        assert await local.rows("select a from t") == [(0,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "create or replace stage if not exists x",
        "create or replace file format if not exists x type = csv",
        "create or replace table if not exists x (a int)",
        "create or replace sequence if not exists x",
    ],
)
def test_or_replace_and_if_not_exists_exclude_each_other(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        with pytest.raises(errors.SqlError) as caught:
            await local.run(text)
        assert caught.value.code == "001003"
        assert "incompatible" in caught.value.message

    local_sql.run_local(tmp_path, work)


def test_copy_fills_the_columns_that_it_does_not_list_with_their_defaults(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create stage s")
        await local.run("copy into @s/x.csv from (select * from values ('a'), ('b'))")
        await local.run(
            "create table t (id int autoincrement start 5 increment 2, name varchar,"
            " n int default 7, at timestamp_ntz default current_timestamp()::timestamp_ntz)"
        )
        await local.run("copy into t (name) from @s file_format = (type = csv)")
        assert await local.rows("select id, name, n, at is null from t order by id") == [
            (5, "a", 7, False),
            (7, "b", 7, False),
        ]
        await local.run("copy into t (name) from (select $1 from @s) force = true")
        assert await local.rows("select id from t order by id") == [(5,), (7,), (9,), (11,)]

    local_sql.run_local(tmp_path, work)


def test_a_put_of_several_files_to_a_bound_stage_is_refused_for_presigned_urls(
    tmp_path: Path,
) -> None:
    bound = {"1": bindings.Binding(type="text", values=("@s",), is_array=False)}

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create stage s")
        await local.run("PUT file:///a.csv ?", bindings=bound)
        for text in ("PUT 'file:///folder/*' ?", "PUT file:///a?.csv ? auto_compress=false"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text, bindings=bound)
            assert caught.value.code == "000002"
            assert "PUT of several files to a stage that is a bind" in caught.value.message
        await local.run("PUT 'file:///folder/*' @s")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_match_by_column_name_case_sensitive_takes_the_names_that_are_shown(
    tmp_path: Path, form: str
) -> None:
    bodies = {
        "csv": b"id,NAME,Mixed,other,OTHER\n1,a,2,3,4\n",
        "parquet": parquet(id=[1], NAME=["a"], Mixed=[2], other=[3], OTHER=[4]),
        "json": b'{"id": 1, "NAME": "a", "Mixed": 2, "other": 3, "OTHER": 4}',
    }
    options = " parse_header = true" if form == "csv" else ""

    async def work(local: local_sql.LocalSql) -> None:
        await local_sql.put_file(local, "@~", f"a.{form}", bodies[form])
        copy = f"copy into t from @~ file_format = (type = {form}{options})"
        by_name = f"{copy} match_by_column_name = case_sensitive"
        await local.run(
            'create table t ("id" int, name varchar, "Mixed" int, other int, mixed2 int)'
        )
        await local.run(by_name)
        assert await local.rows("select * from t") == [(1, "a", 2, 4, None)]
        # `"name"` in lower case is another column than NAME, and ID another one than `id`.
        await local.run('create or replace table t (id int, "name" varchar, "other" int)')
        await local.run(by_name)
        assert await local.rows("select * from t") == [(None, None, 3)]
        await local.run(f"{copy} match_by_column_name = case_insensitive force = true")
        assert (1, "a", 3) in await local.rows("select * from t")
        # A message names the column as it is shown.
        await local.run('create or replace table t ("NAME" int, "other" int)')
        error = await refused(local, by_name)
        assert '"T"["NAME":1]' in error.message

    run(tmp_path, work)
