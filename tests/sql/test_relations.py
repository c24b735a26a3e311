"""Reading Iceberg tables: schema evolution, partitions, every kind of delete, time travel.

Files are made by hand with pyarrow and committed through the catalog, so that what a file holds is
known without asking the code under test.
"""

from __future__ import annotations

import asyncio
import datetime
import math
import random
import re
import struct
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import manifests
from sql import errors, filecolumns, limits, pinned, relations
from tests.kit import collisions, folders, lakes, local_sql
from tests.kit.tablefiles import BASE, COLUMNS, IDS, Maker, field, make, position_file, vector


def test_a_table_without_snapshot_has_columns_and_no_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await make(local)
        assert await local.rows("select id, name from t where v > 1") == []
        assert await local.rows("select count(*), max(v) from t") == [(0, None)]

    local_sql.run_local(tmp_path, work)


def test_columns_are_found_by_field_id_whatever_they_are_called_now(tmp_path: Path) -> None:
    """Renamed, reordered, promoted, added and dropped-then-added-again columns."""

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 10), (2, "b", 20)]))
        await maker.new_schema(
            [
                field(3, "value", "long"),  # renamed and promoted
                field(1, "id", "long"),
                field(4, "name", "string"),  # "name" was dropped and added again
                field(5, "extra", "double"),
            ]
        )
        newer = {
            1: ("id", pa.int64()),
            5: ("extra", pa.float64()),
            4: ("name", pa.string()),
            3: ("value", pa.int64()),
        }
        await maker.commit(await maker.data_file(newer, [(3, 1.5, "c", 2**40)]))

        assert await local.rows("select * from t order by id") == [
            (10, 1, None, None),
            (20, 2, None, None),
            (2**40, 3, "c", 1.5),
        ]
        assert await local.rows("select id from t where name is null order by id") == [(1,), (2,)]
        assert await local.rows("select sum(value) from t") == [(2**40 + 30,)]
        assert await local.rows("select id from t where value = 20") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_two_columns_with_one_name_over_time_stay_distinct(tmp_path: Path) -> None:
    """a and b swap names: matching by name would swap the values."""

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=[field(1, "a", "long"), field(2, "b", "long")])
        two = {1: ("a", pa.int64()), 2: ("b", pa.int64())}
        await maker.commit(await maker.data_file(two, [(1, 2)]))
        await maker.new_schema([field(1, "tmp", "long"), field(2, "b", "long")])
        await maker.new_schema([field(1, "b", "long"), field(2, "a", "long")])
        swapped = {1: ("b", pa.int64()), 2: ("a", pa.int64())}
        await maker.commit(await maker.data_file(swapped, [(3, 4)]))

        assert await local.rows("select a, b from t order by b") == [(2, 1), (4, 3)]

    local_sql.run_local(tmp_path, work)


def test_initial_defaults_stand_in_for_columns_that_older_files_lack(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, properties={"format-version": "3"})
        await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 10)]))
        await maker.new_schema(
            [
                *BASE,
                field(4, "c", "string", **{"initial-default": "it's", "write-default": "it's"}),
                field(5, "d", "date", **{"initial-default": "2024-02-29"}),
                field(6, "n", "decimal(9,2)", **{"initial-default": "1.50"}),
            ]
        )

        text = "select id, c, d::varchar, n::varchar from t"
        assert await local.rows(text) == [(1, "it's", "2024-02-29", "1.50")]
        await local.run("insert into t (id, n) values (2, 3)")
        assert await local.rows(text + " order by id") == [
            (1, "it's", "2024-02-29", "1.50"),
            (2, "it's", None, "3.00"),
        ]

    local_sql.run_local(tmp_path, work)


def test_a_partition_column_that_files_leave_out_takes_the_partitions_value(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        spec = {"fields": [{"source-id": 2, "name": "name", "transform": "identity"}]}
        maker = await make(local, spec=spec)
        without = {1: COLUMNS[1], 3: COLUMNS[3]}
        await maker.commit(
            await maker.data_file(without, [(1, 10)], partition=("x",)),
            await maker.data_file(without, [(2, 20)], partition=("y'z",)),
            await maker.data_file(without, [(3, 30)], partition=(None,)),
        )

        assert await local.rows("select id, name from t order by id") == [
            (1, "x"),
            (2, "y'z"),
            (3, None),
        ]
        assert await local.rows("select id from t where name = 'x'") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_files_without_field_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        mapping = '[{"field-id": 1, "names": ["ID", "key"]}, {"field-id": 3, "names": ["v"]}]'
        maker = await make(local, properties={filecolumns.NAME_MAPPING: mapping})
        columns = {1: ("key", pa.int64()), 2: ("name", pa.string()), 3: ("v", pa.int32())}
        file = await maker.data_file(columns, [(7, "unmapped", 9)], with_ids=False)
        await maker.commit(file)

        assert await local.rows("select id, name, v from t") == [(7, None, 9)]

    local_sql.run_local(tmp_path, work)


def test_files_without_ids_and_mapping_are_refused_not_guessed(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        await maker.commit(await maker.data_file(COLUMNS, [(7, "x", 9)], with_ids=False))

        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select id from t")
        assert caught.value.code == "000002"

    local_sql.run_local(tmp_path, work)


def test_position_deletes_apply_to_their_file_and_to_older_data_only(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        first = await maker.data_file(COLUMNS, [(number, "a", number) for number in range(10)])
        second = await maker.data_file(COLUMNS, [(number, "b", number) for number in range(10, 20)])
        await maker.commit(first, second)
        columns, rows = position_file(
            [(first.file_path, 0), (first.file_path, 9), (second.file_path, 5), ("s3://x/y", 1)]
        )
        uri, footer, size_bytes = await maker.parquet(columns, rows)
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.POSITION_DELETES,
            ),
            operation="delete",
        )
        third = await maker.data_file(COLUMNS, [(100, "c", 1)])
        await maker.commit(third)

        left = [*range(1, 9), *range(10, 15), *range(16, 20), 100]
        assert await local.rows("select id from t order by id") == [(item,) for item in left]
        assert await local.rows("select count(*) from t") == [(len(left),)]
        assert await local.rows("select id from t where id in (0, 9, 15)") == []

    local_sql.run_local(tmp_path, work)


ODD_FOLDERS = {
    "relative": "data",
    "with dots": "a/../b/./data",
    "pattern": "[x] *?.{a,b}",
    "encoded": "100% %20 #ü~^'\"\\",
    "hidden": ".hidden/k=v/_data.parquet",
}


@pytest.mark.parametrize("form", ["positions", "vector", "equality"])
@pytest.mark.parametrize(
    ("folder", "workers"),
    [
        pytest.param(folder, workers, id=f"{name}-{workers}", marks=marks)
        for name, folder in ODD_FOLDERS.items()
        for workers, marks in ((0, ()), (1, () if name == "encoded" else pytest.mark.long))
    ],
)
def test_deleted_rows_stay_deleted_whatever_the_data_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, form: str, workers: int
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, properties={"format-version": "3" if form == "vector" else "2"})
        file = await maker.data_file(COLUMNS, [(number, "a", number) for number in range(5)])
        other = await maker.data_file(COLUMNS, [(9, "b", 9)])
        await maker.commit(file, other)
        assert await local.rows("select id from t where v <> 9") == [(item,) for item in range(5)]
        await maker.delete(form, file, [0, 3])

        assert await local.rows("select id from t order by id") == [(1,), (2,), (4,), (9,)]
        assert await local.rows("select count(*), sum(v) from t") == [(4, 16)]
        # A group of one file, as after pruning.
        assert await local.rows("select id from t where id < 9 order by id") == [(1,), (2,), (4,)]

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    local_sql.run_local(Path(folder), work, workers=workers)


def test_a_data_folder_behind_a_link_reads_like_any_other(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        file = await maker.data_file(COLUMNS, [(number, "a", number) for number in range(5)])
        await maker.commit(file)
        await maker.delete("positions", file, [1])

        assert await local.rows("select sum(id) from t") == [(9,)]

    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    local_sql.run_local(tmp_path / "link" / "data", work)


def test_a_delete_file_that_names_no_row_of_its_data_file_is_an_error_not_all_rows(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        file = await maker.data_file(COLUMNS, [(1, "a", 1), (2, "b", 2)])
        await maker.commit(file)
        # The manifest says whose rows they are; the file spells another location.
        other = file.file_path.replace("s3://", "s3a://")
        await maker.delete("positions", file, [0], spelled=other)

        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select id from t")
        assert caught.value.code == "091364"
        assert file.file_path in caught.value.message

    local_sql.run_local(tmp_path, work)


def test_a_delete_file_of_a_partition_may_name_only_files_that_are_gone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        file = await maker.data_file(COLUMNS, [(1, "a", 1), (2, "b", 2)])
        await maker.commit(file)
        columns, rows = position_file([("s3://lake/compacted/away.parquet", 0), ("s3://x/y", 1)])
        uri, footer, size_bytes = await maker.parquet(columns, rows)
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.POSITION_DELETES,
            ),
            operation="delete",
        )

        assert await local.rows("select id from t order by id") == [(1,), (2,)]

    local_sql.run_local(tmp_path, work)


def test_equality_deletes_match_null_and_spare_newer_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        await maker.commit(
            await maker.data_file(COLUMNS, [(1, "a", 1), (2, None, 2), (3, "c", 3), (4, "a", 4)])
        )
        uri, footer, size_bytes = await maker.parquet({2: COLUMNS[2]}, [("a",), (None,)])
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.EQUALITY_DELETES,
                equality_ids=(2,),
            ),
            operation="delete",
        )
        await maker.commit(await maker.data_file(COLUMNS, [(5, "a", 5), (6, None, 6)]))

        assert await local.rows("select id from t order by id") == [(3,), (5,), (6,)]

        # The compared column may be renamed, or gone from the schema, by now.
        await maker.new_schema([field(1, "id", "long"), field(3, "v", "int")])
        assert await local.rows("select id from t order by id") == [(3,), (5,), (6,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("seed", range(3))
def test_interleaved_deletes_of_every_form_leave_the_rows_that_the_specification_leaves(
    tmp_path: Path, seed: int
) -> None:
    """Equality deletes apply to older data files, within their partition or to all of them."""
    choose = random.Random(seed)

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        alive: list[tuple[manifests.DataFile, int, tuple[Any, ...]]] = []

        async def one_file(partition: int | None) -> manifests.DataFile:
            rows = [
                (choose.randrange(5), choose.choice(["a", "b", None]), partition or 0)
                for _ in range(choose.randrange(1, 6))
            ]
            values = () if partition is None else (partition,)
            file = await maker.data_file(COLUMNS, rows, partition=values)
            alive.extend((file, at, row) for at, row in enumerate(rows))
            return file

        async def one_delete(of: manifests.DataFile | None) -> manifests.DataFile:
            ids = choose.choice([(1,), (2,), (1, 2)])
            keys = [(choose.randrange(5), choose.choice(["a", "b", None])) for _ in range(2)]
            rows = [tuple(key[field_id - 1] for field_id in ids) for key in keys]
            uri, footer, size_bytes = await maker.parquet({one: COLUMNS[one] for one in ids}, rows)
            alive[:] = [
                (file, at, row)
                for file, at, row in alive
                if (of is not None and (file.spec_id, file.partition) != (of.spec_id, of.partition))
                or tuple(row[field_id - 1] for field_id in ids) not in rows
            ]
            return manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.EQUALITY_DELETES,
                equality_ids=ids,
                **({} if of is None else {"spec_id": of.spec_id, "partition": of.partition}),
            )

        await maker.commit(await one_file(None))
        await maker.update(
            {
                "action": "add-spec",
                "spec": {
                    "fields": [
                        {"name": "v", "transform": "identity", "source-id": 3, "field-id": 1000}
                    ]
                },
            },
            {"action": "set-default-spec", "spec-id": -1},
        )
        for _ in range(12):
            partitioned = [file for file, _, _ in alive if file.spec_id]
            deletes = [
                await one_delete(choose.choice([None, *partitioned]))
                for _ in range(choose.randrange(3))
            ]
            # What one commit adds is not older than its deletes.
            await maker.commit(*deletes, await one_file(choose.randrange(3)), operation="overwrite")
            if choose.randrange(3) == 0:
                file, at, _ = choose.choice(alive)
                await maker.delete("positions", file, [at])
                alive[:] = [each for each in alive if (each[0], each[1]) != (file, at)]
            shown = await local.rows("select id, name, v from t")
            assert Counter(shown) == Counter(row for _, _, row in alive)

    local_sql.run_local(tmp_path, work)


def test_equality_delete_of_a_spec_of_void_fields_applies_to_every_older_file(
    tmp_path: Path,
) -> None:
    def spec(transform: str) -> dict[str, Any]:
        return {"fields": [{"name": "v", "transform": transform, "source-id": 3, "field-id": 1000}]}

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, spec=spec("identity"))
        for number in (1, 2):
            rows = [(number, "a", number), (number + 10, "b", number)]
            await maker.commit(await maker.data_file(COLUMNS, rows, partition=(number,)))
        await maker.update(
            {"action": "add-spec", "spec": spec("void")},
            {"action": "set-default-spec", "spec-id": -1},
        )
        uri, footer, size_bytes = await maker.parquet({2: COLUMNS[2]}, [("a",)])
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.EQUALITY_DELETES,
                equality_ids=(2,),
                spec_id=maker.metadata.default_spec_id,
                partition=(None,),
            ),
            operation="delete",
        )
        await maker.commit(await maker.data_file(COLUMNS, [(3, "a", 3)], partition=(None,)))

        assert await local.rows("select id from t order by id") == [(3,), (11,), (12,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("as_uuid", [True, False])
def test_equality_deletes_by_a_uuid_spare_newer_rows(tmp_path: Path, as_uuid: bool) -> None:
    uuid_type: Any = pa.uuid() if as_uuid else pa.binary(16)
    columns = {1: ("id", uuid_type), 2: ("v", pa.int32())}
    keys = [uuid.UUID(int=number).bytes for number in range(4)]

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=[field(1, "id", "uuid"), field(2, "v", "int")])
        for number in range(3):
            rows = [(key, number * 10 + at) for at, key in enumerate(keys)]
            await maker.commit(await maker.data_file(columns, rows))
            uri, footer, size_bytes = await maker.parquet({1: columns[1]}, [(keys[number],)])
            await maker.commit(
                manifests.DataFile(
                    file_path=uri,
                    file_format="PARQUET",
                    record_count=footer.num_rows,
                    file_size_in_bytes=size_bytes,
                    content=manifests.Content.EQUALITY_DELETES,
                    equality_ids=(1,),
                ),
                operation="delete",
            )
        expected = [
            number * 10 + at for number in range(3) for at in range(4) if not number <= at < 3
        ]
        assert await local.rows("select v from t order by v") == [(v,) for v in expected]

    local_sql.run_local(tmp_path, work)


MOMENTS = [datetime.datetime(2024, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3)]


@pytest.mark.parametrize("is_interleaved", [True, False])
@pytest.mark.parametrize(
    ("iceberg_type", "written", "of_deletes", "keys"),
    [
        ("string", pa.string(), (pa.string_view(), pa.string()), "abc"),
        ("string", pa.string(), (pa.dictionary(pa.int32(), pa.string()), pa.large_string()), "abc"),
        ("string", pa.string(), (pa.dictionary(pa.int8(), pa.string()),) * 2, "abc"),
        ("binary", pa.binary(), (pa.binary_view(), pa.binary()), [b"a", b"b", b"c"]),
        (
            "timestamptz",
            pa.timestamp("us", "UTC"),
            (pa.timestamp("us", "+00:00"), pa.timestamp("us", "UTC")),
            MOMENTS,
        ),
        ("double", pa.float64(), (pa.float32(), pa.float64()), [0.5, math.nan, -1.0]),
    ],
    ids=["view", "dictionary", "dictionaries", "binary", "zone", "double"],
)
def test_equality_deletes_are_read_in_every_arrow_type_that_writers_note(
    tmp_path: Path,
    iceberg_type: str,
    written: Any,
    of_deletes: Sequence[Any],
    keys: Sequence[Any],
    is_interleaved: bool,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=[field(1, "k", iceberg_type), field(2, "v", "int")])
        columns = {1: ("k", written), 2: ("v", pa.int32())}
        await maker.commit(await maker.data_file(columns, list(zip(keys, (1, 2, 3), strict=True))))
        for key, arrow_type in zip(keys, of_deletes, strict=False):
            uri, footer, size_bytes = await maker.parquet({1: ("k", arrow_type)}, [(key,)])
            await maker.commit(
                manifests.DataFile(
                    file_path=uri,
                    file_format="PARQUET",
                    record_count=footer.num_rows,
                    file_size_in_bytes=size_bytes,
                    content=manifests.Content.EQUALITY_DELETES,
                    equality_ids=(1,),
                ),
                operation="delete",
            )
            if is_interleaved:
                await maker.commit(await maker.data_file(columns, [(key, 4)]))
        newer = [(4,), (4,)] if is_interleaved else []
        assert await local.rows("select v from t order by v") == [(3,), *newer]

    local_sql.run_local(tmp_path, work)


def test_equality_deletes_by_very_many_sets_of_columns_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EQUALITY_KEYS_MAX", 2)

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 1), (2, "b", 2)]))
        for ids, rows in (((1,), [(1,)]), ((2,), [("x",)]), ((1, 2), [(9, "y")])):
            if ids != (1, 2):
                assert len(await local.rows("select id from t")) in (1, 2)
            uri, footer, size_bytes = await maker.parquet({one: COLUMNS[one] for one in ids}, rows)
            await maker.commit(
                manifests.DataFile(
                    file_path=uri,
                    file_format="PARQUET",
                    record_count=footer.num_rows,
                    file_size_in_bytes=size_bytes,
                    content=manifests.Content.EQUALITY_DELETES,
                    equality_ids=ids,
                ),
                operation="delete",
            )

        with pytest.raises(errors.SqlError, match="more than 2 sets of columns: compact"):
            await local.rows("select id from t")

    local_sql.run_local(tmp_path, work)


def test_an_equality_delete_file_without_its_columns_is_damaged(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 1)]))
        uri, footer, size_bytes = await maker.parquet({3: COLUMNS[3]}, [(1,)])
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PARQUET",
                record_count=footer.num_rows,
                file_size_in_bytes=size_bytes,
                content=manifests.Content.EQUALITY_DELETES,
                equality_ids=(1,),
            ),
            operation="delete",
        )

        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select id from t")
        assert caught.value.code == "091364"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_deletion_vectors_hide_their_rows_and_damaged_ones_hide_nothing_silently(
    tmp_path: Path, is_damaged: bool
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, properties={"format-version": "3"})
        file = await maker.data_file(COLUMNS, [(number, "a", number) for number in range(5)])
        await maker.commit(file)
        blob = vector([0, 3])
        if is_damaged:
            blob = blob[:-1] + bytes([blob[-1] ^ 1])
        puffin = b"PFA1" + blob + b"rest of the file"
        uri = await maker.put(f"{uuid.uuid4().hex}.puffin", puffin)
        await maker.commit(
            manifests.DataFile(
                file_path=uri,
                file_format="PUFFIN",
                record_count=2,
                file_size_in_bytes=len(puffin),
                content=manifests.Content.POSITION_DELETES,
                referenced_data_file=file.file_path,
                content_offset=4,
                content_size_in_bytes=len(blob),
            ),
            operation="delete",
        )

        if is_damaged:
            with pytest.raises(errors.SqlError):
                await local.rows("select id from t")
        else:
            assert await local.rows("select id from t order by id") == [(1,), (2,), (4,)]

    local_sql.run_local(tmp_path, work)


def test_pruning_leaves_files_out_and_never_rows(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        for start in range(0, 50, 10):
            rows = [(number, f"n{number}", number) for number in range(start, start + 10)]
            await maker.commit(await maker.data_file(COLUMNS, rows))
        seen: list[int] = []
        plan = local.scans.plan

        async def counting(*arguments: Any, **more: Any) -> Any:
            scan = await plan(*arguments, **more)
            seen.append(len(scan.tasks))
            return scan

        local.scans.plan = counting  # type: ignore[method-assign]
        for text, files, expected in (
            ("select id from t where id = 25", 1, [(25,)]),
            ("select count(*) from t where id < 20", 2, [(20,)]),
            ("select count(*) from t where id between 15 and 24", 2, [(10,)]),
            ("select id from t where id in (5, 45) order by 1", 2, [(5,), (45,)]),
            ("select id from t where name = 'n31'", 2, [(31,)]),  # between n0 and n9, too
            ("select count(*) from t where id > 100", 0, [(0,)]),
            ("select count(*) from t where id = 5 or id = 45", 2, [(2,)]),
            ("select count(*) from t where name is null", 0, [(0,)]),
            ("select count(*) from t where id = 25.5", 5, [(0,)]),
        ):
            seen.clear()
            assert await local.rows(text) == expected, text
            assert seen == [files], text

    local_sql.run_local(tmp_path, work)


def test_time_travel_reads_an_older_snapshot_with_its_own_schema(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        clock = local.lake.clock
        maker = await make(local)
        start_ms = clock.now_ms
        clock.now_ms += 10_000
        first = await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 1)]))
        clock.now_ms += 60_000
        await maker.update(
            {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": first}
        )
        await maker.new_schema([field(1, "key", "long"), field(2, "name", "string")])
        newer = {1: ("key", pa.int64()), 2: ("name", pa.string())}
        second = await maker.commit(await maker.data_file(newer, [(2, "b")]))
        clock.now_ms += 60_000

        assert await local.rows("select * from t order by key") == [(1, "a"), (2, "b")]
        for clause in (
            f"at(version => {first})",
            f"before(version => {second})",
            "at(ref => 'v1')",
            "at(offset => -90)",
            "at(timestamp => dateadd(second, -90, current_timestamp()))",
        ):
            assert await local.rows(f"select id, v from t {clause}") == [(1, 1)], clause
        assert await local.rows(f"select * from t at(version => {second}) order by key") == [
            (1, "a"),
            (2, "b"),
        ]
        seconds = (clock.now_ms - start_ms) // 1000
        assert await local.rows(f"select * from t at(offset => -{seconds})") == []
        for clause in (
            "at(version => 5)",
            "at(ref => 'nosuch')",
            "at(statement => 'nosuch')",
            f"at(offset => -{seconds + 100})",
        ):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(f"select * from t {clause}")
            assert caught.value.code == "000707", clause
        for far in ("-9223372036854775807", "-" + "9" * 38):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(f"select * from t at(offset => {far})")
            assert caught.value.code == "100039", far

    local_sql.run_local(tmp_path, work)


def test_a_rollback_decides_what_was_current_not_the_newest_snapshot(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        clock = local.lake.clock
        maker = await make(local)
        first = await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 1)]))
        clock.now_ms += 60_000
        await maker.commit(await maker.data_file(COLUMNS, [(2, "b", 2)]))
        clock.now_ms += 60_000
        await maker.update(
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": first,
            }
        )
        clock.now_ms += 60_000

        assert await local.rows("select id from t") == [(1,)]
        assert await local.rows("select id from t at(offset => -90) order by id") == [(1,), (2,)]
        assert await local.rows("select id from t at(offset => -30)") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_a_query_id_names_the_state_its_statement_made(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table w (a int)")
        await local.run("insert into w values (1)")
        one = local.last_id
        await local.run("insert into w values (2)")
        two = local.last_id

        text = "select a from w {}(statement => '{}') order by a"
        assert await local.rows(text.format("at", one)) == [(1,)]
        assert await local.rows(text.format("at", two)) == [(1,), (2,)]
        assert await local.rows(text.format("before", two)) == [(1,)]
        assert await local.rows(text.format("before", one)) == []

    local_sql.run_local(tmp_path, work)


def test_one_query_sees_one_snapshot_whatever_is_committed_meanwhile(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        await maker.commit(await maker.data_file(COLUMNS, [(1, "a", 1)]))
        outcome = await local.run("select count(*) from t")
        await maker.commit(await maker.data_file(COLUMNS, [(2, "b", 2)]))
        assert outcome.batches is not None
        values = [batch.column(0)[0].as_py() async for batch in outcome.batches]
        assert values == [1]

    local_sql.run_local(tmp_path, work)


def test_a_file_outside_the_table_is_read_only_with_rights_of_its_own(tmp_path: Path) -> None:
    """Manifests are written by clients: a path that leaves the table is asked for as the caller."""

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        file = await maker.data_file(COLUMNS, [(1, "a", 1)])
        await local.run("create table other (id int)")
        other = Maker(local=local, ident=local.lake.ident("ns.other"))
        await other.commit(
            manifests.DataFile(
                file_path=file.file_path,
                file_format="PARQUET",
                record_count=1,
                file_size_in_bytes=file.file_size_in_bytes,
            )
        )
        assert await local.rows("select id from other") == [(1,)]  # root may read both

        reader = local_sql.user(
            "reader",
            [
                {"Effect": "Allow", "Action": "s3tables:List*", "Resource": "*"},
                {"Effect": "Allow", "Action": "s3tables:Get*", "Resource": "*"},
                {
                    "Effect": "Deny",
                    "Action": "s3tables:GetTableData",
                    "Resource": local_sql.table_arn(local, "ns.t"),
                },
            ],
        )
        local.session.principal = reader
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select id from other")
        assert caught.value.code == "003001"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("file_format", ["ORC", "AVRO"])
def test_other_file_formats_are_refused_by_name(tmp_path: Path, file_format: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        uri = await maker.put(f"x.{file_format.lower()}", b"not read")
        await maker.commit(
            manifests.DataFile(
                file_path=uri, file_format=file_format, record_count=1, file_size_in_bytes=8
            )
        )
        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select id from t")
        assert caught.value.code == "000002"
        assert file_format in caught.value.message

    local_sql.run_local(tmp_path, work)


def test_nested_columns_are_shown_as_json_and_are_no_texts(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        inner = {"type": "struct", "fields": [field(3, "x", "long"), field(4, "y", "string")]}
        listed = {"type": "list", "element-id": 6, "element": "int", "element-required": False}
        fields = [field(1, "id", "long"), field(2, "s", inner), field(5, "l", listed)]
        maker = await make(local, fields=fields)
        stored = {item["name"]: item for item in maker.metadata.current_schema()["fields"]}
        struct_type = pa.struct(
            [
                pa.field(
                    name, type_, metadata={IDS: str(stored["s"]["type"]["fields"][place]["id"])}
                )
                for place, (name, type_) in enumerate((("x", pa.int64()), ("y", pa.string())))
            ]
        )
        element_id = str(stored["l"]["type"]["element-id"])
        element = pa.field("element", pa.int32(), metadata={IDS: element_id})
        columns = {
            stored["id"]["id"]: ("id", pa.int64()),
            stored["s"]["id"]: ("s", struct_type),
            stored["l"]["id"]: ("l", pa.list_(element)),
        }
        await maker.commit(
            await maker.data_file(columns, [(1, {"x": 5, "y": "q"}, [1, None]), (2, None, None)])
        )

        assert await local.rows("select s, l from t order by id") == [
            ('{"x":5,"y":"q"}', "[1,null]"),
            (None, None),
        ]
        assert await local.rows("select count(s), count(*) from t where l is not null") == [(1, 1)]
        with pytest.raises(errors.SqlError):
            await local.rows("select s || 'x' from t")

    local_sql.run_local(tmp_path, work)


STRUCTURED: dict[str, Any] = {
    "s": {
        "type": "struct",
        "fields": [
            field(10, "x", "int", required=True),
            field(11, "Name", "string"),
            field(
                12,
                "in",
                {
                    "type": "struct",
                    "fields": [
                        field(13, "d", "decimal(20,9)", required=True),
                        field(14, "day", "date"),
                        field(15, "at", "timestamptz"),
                    ],
                },
            ),
        ],
    },
    "l": {
        "type": "list",
        "element-id": 20,
        "element-required": False,
        "element": {
            "type": "struct",
            "fields": [
                field(21, "a", "double"),
                field(
                    22,
                    "tags",
                    {
                        "type": "list",
                        "element-id": 23,
                        "element": "string",
                        "element-required": False,
                    },
                ),
            ],
        },
    },
    "m": {
        "type": "map",
        "key-id": 30,
        "key": "string",
        "value-id": 31,
        "value-required": False,
        "value": {"type": "struct", "fields": [field(32, "v", "long")]},
    },
    "n": {
        "type": "map",
        "key-id": 40,
        "key": "int",
        "value-id": 41,
        "value": "string",
        "value-required": False,
    },
}
"""Iceberg's nested types two deep, with required fields inside optional ones."""


def arrow_of(iceberg_type: Any, name: str, field_id: int, *, required: bool = False) -> Any:
    """Return the Arrow field of a writer that keeps the fields required which are."""
    primitive = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "date": pa.date32(),
                 "boolean": pa.bool_(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
                 "double": pa.float64(), "decimal(20,9)": pa.decimal128(20, 9),
                 "timestamptz": pa.timestamp("us", "UTC")}  # fmt: skip
    arrow_type: Any
    if isinstance(iceberg_type, str):
        arrow_type = primitive[iceberg_type]
    elif iceberg_type["type"] == "struct":
        arrow_type = pa.struct(
            [
                arrow_of(each["type"], each["name"], each["id"], required=each["required"])
                for each in iceberg_type["fields"]
            ]
        )
    elif iceberg_type["type"] == "list":
        element = arrow_of(iceberg_type["element"], "element", iceberg_type["element-id"])
        arrow_type = pa.list_(element)
    else:
        arrow_type = pa.map_(
            arrow_of(iceberg_type["key"], "key", iceberg_type["key-id"], required=True),
            arrow_of(iceberg_type["value"], "value", iceberg_type["value-id"]),
        )
    return pa.field(name, arrow_type, nullable=not required, metadata={IDS: str(field_id)})


MOMENT = datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.UTC)
SMALL = Decimal("0.000000001")
STRUCTURED_ROWS: list[tuple[Any, ...]] = [
    (
        1,
        {"x": 7, "Name": 'q"', "in": {"d": SMALL, "day": datetime.date(2024, 2, 29), "at": MOMENT}},
        [{"a": 1.5, "tags": ["b", None]}, None, {"a": None, "tags": None}],
        [("k", {"v": 3}), ("A b", None)],
        [(-1, "minus"), (2, None)],
    ),
    (2, {"x": 8, "Name": None, "in": None}, [], [], []),
    (3, None, None, None, None),
    (4, {"x": -8, "Name": "", "in": {"d": -SMALL, "day": None, "at": None}}, [None], None, None),
]


async def structured(local: local_sql.LocalSql) -> None:
    """Make table T of STRUCTURED_ROWS, each row in a file of its own."""
    nested = [field(2 + place, name, of) for place, (name, of) in enumerate(STRUCTURED.items())]
    maker = await make(local, fields=[field(1, "id", "long"), *nested])
    stored = maker.metadata.current_schema()["fields"]
    columns: dict[int, Any] = {1: ("id", pa.int64())}
    for each in stored[1:]:
        columns[each["id"]] = (each["name"], arrow_of(each["type"], "", 0).type)
    await maker.commit(*[await maker.data_file(columns, [row]) for row in STRUCTURED_ROWS])


def test_parts_of_nested_columns_have_their_types_and_are_computed_with(tmp_path: Path) -> None:
    expected: dict[str, list[tuple[Any, ...]]] = {
        "select s:x, s:Name, s:in.day from t order by id": [
            (7, 'q"', datetime.date(2024, 2, 29)),
            (8, None, None),
            (None, None, None),
            (-8, "", None),
        ],
        # The fields are required inside optional structs: NULL all the same where those are.
        "select s:in.d, s['in']['d'] * 2 from t order by id": [
            (SMALL, 2 * SMALL),
            (None, None),
            (None, None),
            (-SMALL, -2 * SMALL),
        ],
        "select id from t where s:x = 8": [(2,)],
        "select id from t where s:in is null order by id": [(2,), (3,)],
        "select id from t where s:x + 1 > 0 and s:Name is not null": [(1,)],
        "select sum(s:x), max(s:in.d), count(s:in) from t": [(7, SMALL, 2)],
        "select get(s, 'x'), get_path(s, 'in.day')::varchar, get_ignore_case(s, 'name') from t"
        " where id = 1": [(7, "2024-02-29", 'q"')],
        "select l[0]:a, l[0]:tags[0], l[0].tags[1], l[1]:a, l[2].a, l[9]:a, l[-1]:a from t"
        " where id = 1": [(1.5, "b", None, None, None, None, None)],
        "select l[id]:a, l[1 - id]:a, l[-id]:a, get(l, id - 1):tags from t where id = 1": [
            (None, 1.5, None, '["b",null]')
        ],
        "select m['k']:v, m:k.v + 1, m['A b'], m['none'], n[-1], n[2], n[7] from t where id = 1": [
            (3, 4, None, None, "minus", None, None)
        ],
        "select m[lower('K')].v from t order by id": [(3,), (None,), (None,), (None,)],
        # A key or an index that the type does not hold is not rounded to another one.
        "select n[1.6], n[-1.0], n[id + 0.6], n[-id], n[99999999999], n[-1e0], n[1e300] from t"
        " where id = 1": [(None, "minus", None, "minus", None, "minus", None)],
        "select map_contains_key(1.6, n), map_contains_key(2.0, n), map_contains_key(-id, n),"
        " map_contains_key(99999999999, n), map_contains_key(null, n) from t where id in (1, 3)"
        " order by id": [(False, True, True, False, None), (None,) * 5],
        "select l[9999999999999999999999]:a, l[1e30]:a, l[id * 1e300]:a, l[id - 1.0]:a from t"
        " where id = 1": [(None, None, None, 1.5)],
        "select l[0.0]:a, l[0.4]:a, get(l, id - 0.6):a, l[0.4e0]:a, l[id - 1e0]:a, l[null]:a from t"
        " where id = 1": [(1.5, None, None, None, 1.5, None)],
        "select is_array(l), is_object(l), is_object(s), is_object(m), is_null_value(l), is_date(s)"
        " from t where id < 4 order by id": [
            (True, False, True, True, False, False),
            (True, False, True, True, False, False),
            (None,) * 6,
        ],
        "select mode(l)[0]:a::float, mode(n)['-1']::varchar from t where id = 1": [(1.5, "minus")],
        "select map_size(m), map_contains_key('k', m), map_contains_key(2, n), array_size(l)"
        " from t order by id": [
            (2, True, True, 3),
            (0, False, False, 0),
            (None, None, None, None),
            (None, None, None, 1),
        ],
        "select map_keys(n)[0], array_size(map_keys(m)), object_keys(s)::varchar from t"
        " where id = 1": [(-1, 2, '["Name","in","x"]')],
        "select f.index, f.value:a, f.path from t, lateral flatten(input => l) f where id = 1"
        " order by 1": [(0, 1.5, "[0]"), (1, None, "[1]"), (2, None, "[2]")],
        "select id, f.value from t, lateral flatten(input => l, path => '[0].tags') f": [
            (1, "b"),
            (1, None),
        ],
        "select id, f.index, f.this from t, lateral flatten(l, outer => true) f where id > 1"
        " order by 1": [(2, None, "[]"), (3, None, None), (4, 0, "[null]")],
        "select f.key, f.value:v, f.path from t, lateral flatten(m) f order by 1": [
            ("A b", None, "['A b']"),
            ("k", 3, "k"),
        ],
        "select f.key + 1, f.value, f.path from t, table(flatten(n)) f order by 1": [
            (0, "minus", "['-1']"),
            (3, None, "['2']"),
        ],
        "select f.key, f.value::varchar from t, lateral flatten(s) f where id = 4 order by 1": [
            ("Name", ""),
            ("in", '{"at":null,"d":-0.000000001,"day":null}'),
            ("x", "-8"),
        ],
        "select a.id, b.id from t a join t b on a.s:x = -b.s:x order by 1": [(2, 4), (4, 2)],
        "select s:x, count(*) from t group by s:x order by 1": [
            (-8, 1), (7, 1), (8, 1), (None, 1)
        ],
        "select id from t where l = l order by id": [(1,), (2,), (4,)],
        # In the order of fields by name, in which a NULL is the greatest.
        "select min(s):x, max(s):x, map_size(min(m)) from t": [(-8, 8, 0)],
        "select count(distinct s), count(distinct m) from t": [(3, 2)],
        "select nullif(m, m), iff(id = 4, null, s):x, coalesce(l, l)[0]:a, nvl2(s, 'y', 'n') from t"
        " order by id": [
            (None, 7, 1.5, "y"),
            (None, 8, None, "y"),
            (None, None, None, "n"),
            (None, None, None, "y"),
        ],
        "select q.s:x, q.l[0]:a from (select s, l from t union all select s, l from t) q"
        " where q.s:x = 7": [(7, 1.5), (7, 1.5)],
        "with c as (select s from t where s:x > 0) select max(s:in.d) from c": [(SMALL,)],
        "select s:x from t order by s:in.d desc nulls last limit 1": [(7,)],
        "select (select max(b.s:x) from t b where b.id = a.id) from t a order by a.id": [
            (7,), (8,), (None,), (-8,)
        ],
        "select id from t where s:x in (select s:x from t where s:x < 0)": [(4,)],
        "select row_number() over (partition by s:x > 0 order by s:x) from t where id < 3"
        " order by 1": [(1,), (2,)],
    }  # fmt: skip

    async def work(local: local_sql.LocalSql) -> None:
        await structured(local)
        for text, rows in expected.items():
            assert await local.rows(text) == rows, text

    local_sql.run_local(tmp_path, work)


MIDNIGHT = datetime.datetime(2024, 1, 1)  # noqa: DTZ001 # a TIMESTAMP_NTZ has no zone


def map_of(key: str, number: int) -> dict[str, Any]:
    return {"type": "map", "key-id": number, "key": key, "value-id": number + 1, "value": "string",
            "value-required": False}  # fmt: skip


def test_a_key_that_is_not_equal_to_that_of_a_map_finds_nothing(tmp_path: Path) -> None:
    keys = {
        "time": ("c", datetime.time(12, 30), datetime.time(0, 0, 0, 5)),
        "date": ("d", datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
        "boolean": ("b", True, False),
        "long": ("n", 1, (1 << 63) - 1),
        "string": ("v", "1", "2024-01-01 10:00:00.000"),
        "timestamp": ("m", MIDNIGHT, MIDNIGHT.replace(hour=10)),
    }
    expected: dict[str, list[tuple[Any, ...]]] = {
        "select c['12:30'], c['12:30'::time], c[to_variant('12:30')], c['12:31'],"
        " c['00:00:00.000005'] from t": [("one", "one", "one", None, "two")],
        "select d['2024-01-01'], d['2024-01-01 00:00:00'], d['2024-01-01 10:00:00'],"
        " d['2024-01-01 10:00'::timestamp], d['2024-01-02'::timestamp],"
        " d[to_variant('2024-01-01')], d[to_variant('2024-01-01 10:00'::timestamp)], d[v],"
        " d['2024-01-03'] from (select d, '2024-01-01 10:' || '00' as v from t)": [
            ("one", "one", None, None, "two", "one", None, None, None)
        ],
        "select b[true], b['no'], b[1], b[0], b[5], b[0.5], b[1e0], b[-1e0], b[n], b[1 = 2]"
        " from (select b, 5 as n from t)": [
            ("one", "two", "one", "two", None, None, "one", None, None, "two")
        ],
        "select n['1'], n['1.0'], n['1.4'], n['99999999999999999999'], n[9999999999999999999],"
        " n['9223372036854775807'], n[9223372036854775807], n[to_variant(1.5)], n[to_variant('1')],"
        " n[to_variant(99999999999999999999)], n[v] from"
        " (select n, '99999999999999999999' || '9' as v from t)": [
            ("one", "one", None, None, None, "two", "two", None, "one", None, None)
        ],
        "select map_contains_key('99999999999999999999', n), map_contains_key(5, b),"
        " map_contains_key('2024-01-01 10:00', d), map_contains_key(null, d) from t": [
            (False, False, False, None)
        ],
        "select v[1], v['2024-01-01 10:00'::timestamp], v['2024-01-01 10:00:00.0001'::timestamp]"
        " from t": [("one", "two", None)],
        "select m['2024-01-01'], m['2024-01-01'::date], m['2024-01-01 10:00'],"
        " m['2024-01-01 10:00 +00:00'::timestamp_ltz], m['2024-01-01 10:00'::timestamp_ntz],"
        " m['2024-01-01 10:00 +05:00'::timestamp_tz] from t": [
            ("one", "one", "two", "two", "two", None)
        ],
    }
    refused = {
        "select c['2024-01-01 12:30'::timestamp] from t": "001065",
        "select m[1704067200] from t": "001065",
        "select n['one'] from t": "100038",
        "select b['one'] from t": "100037",
    }

    async def work(local: local_sql.LocalSql) -> None:
        fields = [
            field(place, name, map_of(key, 20 + 2 * place))
            for place, (key, (name, *_)) in enumerate(keys.items(), start=1)
        ]
        maker = await make(local, fields=fields)
        columns: dict[int, Any] = {
            each["id"]: (each["name"], arrow_of(each["type"], "", 0).type)
            for each in maker.metadata.current_schema()["fields"]
        }
        row = tuple([(first, "one"), (second, "two")] for _, first, second in keys.values())
        await maker.commit(await maker.data_file(columns, [row]))
        await local.run("alter session set timezone = 'UTC'")
        for text, rows in expected.items():
            assert await local.rows(text) == rows, text
        codes = {}
        for text in refused:
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            codes[text] = caught.value.code
        assert codes == refused

    local_sql.run_local(tmp_path, work)


def test_a_multi_table_insert_takes_nested_values_and_their_parts(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await structured(local)
        wanted = "select id, s, l, m, n from t order by id"
        stored = await local.rows(wanted)
        await local.run("create table whole as select id, s, l, m, n from t where id < 0")
        await local.run("create table parts (x int, a float, v int, k varchar, day date)")
        counts = await local.rows(
            "insert first when s:x > 7 then into whole when l is null then into whole"
            " else into whole into parts values (s:x, l[0]:a, m['k']:v, n[-1], s:in.day)"
            " select id, s, l, m, n from t"
        )
        assert counts == [(4, 2)]
        assert await local.rows("select id, s, l, m, n from whole order by id") == stored
        assert await local.rows("select * from parts order by 1") == [
            (-8, None, None, None, None),
            (7, 1.5, 3, "minus", datetime.date(2024, 2, 29)),
        ]
        await local.run("insert all into whole (s, l) select s, l from t where id = 1")
        assert await local.rows("select s:Name, l[0]:tags[0] from whole where id is null") == [
            ('q"', "b")
        ]

    local_sql.run_local(tmp_path, work)


def test_nested_columns_become_variants_with_every_digit(tmp_path: Path) -> None:
    expected: dict[str, list[tuple[Any, ...]]] = {
        "select to_json(s) from t order by id": [
            (
                '{"Name":"q\\"","in":{"at":"2024-05-01 12:30:00.000 +0000","d":0.000000001,'
                '"day":"2024-02-29"},"x":7}',
            ),
            ('{"Name":null,"in":null,"x":8}',),
            (None,),
            ('{"Name":"","in":{"at":null,"d":-0.000000001,"day":null},"x":-8}',),
        ],
        "select to_json(l::variant), to_json(m::object) from t where id = 1": [
            (
                '[{"a":1.500000000000000e+00,"tags":["b",undefined]},undefined,'
                '{"a":null,"tags":null}]',
                '{"A b":null,"k":{"v":3}}',
            )
        ],
        "select to_json(n) from t order by id": [
            ('{"-1":"minus","2":null}',), ("{}",), (None,), (None,)
        ],
        "select typeof(s::variant:in.day), typeof(to_variant(l)[0]:a) from t where id = 1": [
            ("DATE", "DOUBLE")
        ],
        "select array_contains(-1, map_keys(n)), array_to_string(l[0]:tags, '+') from t"
        " where id = 1": [(True, "b+")],
        "select to_json(object_pick(s, 'x', 'in')), to_json(object_construct(*):N) from t"
        " where id = 2": [('{"in":null,"x":8}', "{}")],
        "select array_size(array_agg(s)), max(array_size(to_array(l))) from t": [(3, 3)],
    }  # fmt: skip

    async def work(local: local_sql.LocalSql) -> None:
        await structured(local)
        for text, rows in expected.items():
            assert await local.rows(text) == rows, text

    local_sql.run_local(tmp_path, work)


def test_keys_that_a_structured_object_does_not_have_are_errors_of_the_text(
    tmp_path: Path,
) -> None:
    refused = {
        "select s:X from t": "093201",
        "select get(s, 'nope') from t": "093201",
        "select s:in.nope from t": "093201",
        "select s[s:Name] from t": "000002",
        "select l:a from t": "001065",
        "select s:x.y from t": "001065",
        "select l['a'] from t": "001065",
        "select s = s::object from t": "001065",
        "select s = m from t": "001065",
        "select l::varchar from t": "001065",
        "select map_size(s) from t": "001044",
        "select array_size(s) from t": "001044",
        "select case when id = 1 then s else m end from t": "001065",
        "select s from t union all select m from t": "001790",
    }

    async def work(local: local_sql.LocalSql) -> None:
        await structured(local)
        codes = {}
        for text in refused:
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(text)
            codes[text] = caught.value.code
        assert codes == refused

    local_sql.run_local(tmp_path, work)


def test_structured_values_are_copied_to_columns_of_their_structure(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await structured(local)
        await local.run("create table u as select id, s, l, m, n, s:in as i from t")
        columns = "select id, s, l, m, n from {} order by id"
        rows = await local.rows(columns.format("t"))
        assert await local.rows(columns.format("u")) == rows
        await local.run("insert into u (id, l, m, n) select id + 10, l, m, n from t where id = 1")
        await local.run("insert into u (id, s) select 20, s from u where id = 4")
        await local.run("insert into u values (21, null, null, default, null, null)")
        await local.run("update u set i = b.i from u as b where u.id = 20 and b.id = 1")
        assert await local.rows(
            "select id, s:x, s:in.d, l[0]:tags[0], m['k']:v, n[-1], i:d from u where id > 3"
            " order by 1"
        ) == [
            (4, -8, -SMALL, None, None, None, -SMALL),
            (11, None, None, "b", 3, "minus", None),
            (20, -8, -SMALL, None, None, None, SMALL),
            (21, None, None, None, None, None, None),
        ]
        await local.run(
            "merge into u using (select 30 as id, s, l from t where t.id = 1 union all"
            " select 20, null, l from t where t.id = 1) as b on u.id = b.id"
            " when matched then update set l = b.l"
            " when not matched then insert (id, s, l) values (b.id, b.s, b.l)"
        )
        assert await local.rows(
            "select id, s:x, l[0]:a, map_size(m) from u where id in (20, 30) order by id"
        ) == [(20, -8, 1.5, None), (30, 7, 1.5, None)]
        await local.run("update u set s = default, m = null where id = 30")
        assert await local.rows("select s, m, l[0]:a from u where id = 30") == [(None, None, 1.5)]
        await local.run("create view w as select id, s:x as x, l from u")
        assert await local.rows("select x, l[0]:a from w where id = 1") == [(7, 1.5)]
        casts = (
            "[{0}, null]::array(int) a, {{'k': {0}}}::map(varchar, int) m,"
            " {{'x': {0}}}::object(x int) s"
        )
        await local.run(f"create table casts as select 1 as id, {casts.format(5)}")
        await local.run(f"insert into casts select 2, {casts.format(6)}")
        assert await local.rows(
            "select a[0], a[1], m['k'] + 1, s:x, map_insert(m, 'j', 7)['j'] from casts order by id"
        ) == [(5, None, 6, 5, 7), (6, None, 7, 6, 7)]
        await local.run("create table other as select s:in as s from t")
        refused = {
            "insert into u (id, s) select 1, s from other": "001065",
            "insert into u (id, s) select 1, object_construct('x', 1)": "001065",
            "insert into casts (id, a) select 1, [5]": "001065",
            "insert into t (id, s) select 1, s from t": "000002",
        }
        for text, number in refused.items():
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == number, text

    local_sql.run_local(tmp_path, work)


def test_structured_values_are_unloaded_as_json_text(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await structured(local)
        texts = await local.rows("select to_json(s), to_json(l), to_json(m) from t where id = 1")
        texts.append((None, None, None))
        for form in ("type = parquet", "type = csv null_if = () field_delimiter = '|'"):
            await local.run(f"create or replace file format f {form}")
            await local.run(
                f"copy into @~/of/{form[7]} from (select s, l, m from t where id = 1 or id = 3)"
                " file_format = (format_name = 'f') header = true single = true"
            )
        listed = "$1:S::varchar, $1:L::varchar, $1:M::varchar"
        await local.run("create or replace file format f type = parquet")
        rows = await local.rows(f"select {listed} from @~/of/p (file_format => f)")
        assert sorted(rows, key=str) == texts
        await local.run(
            "create or replace file format f type = csv skip_header = 1 field_delimiter = '|'"
        )
        rows = await local.rows("select $1, $2, $3 from @~/of/c (file_format => f)")
        assert sorted(rows, key=str) == texts
        await local.run(
            "copy into @~/of/j from (select m from t where id = 1)"
            " file_format = (type = json compression = none) single = true"
        )
        await local.run("create or replace file format f type = json")
        assert await local.rows("select $1:k:v::int from @~/of/j (file_format => f)") == [(3,)]

    local_sql.run_local(tmp_path, work)


LISTS: dict[str, Any] = {
    "list": lambda element: pa.list_(element(pa.string())),
    "large_list": lambda element: pa.large_list(element(pa.string())),
    "large_list of large_string": lambda element: pa.large_list(element(pa.large_string())),
    "list of large_string": lambda element: pa.list_(element(pa.large_string())),
    "list of string_view": lambda element: pa.list_(element(pa.string_view())),
    "list of dictionary": lambda element: pa.list_(element(pa.dictionary(pa.int32(), pa.string()))),
    "list_view": lambda element: pa.list_view(element(pa.string())),
    "fixed_size_list": lambda element: pa.list_(element(pa.string()), 2),
}


@pytest.mark.parametrize("inside", ["column", "struct", "map"])
@pytest.mark.parametrize("layout", LISTS)
def test_lists_are_read_in_every_layout_that_writers_give_them(
    tmp_path: Path, layout: str, inside: str
) -> None:
    listed = {"type": "list", "element-id": 3, "element": "string", "element-required": False}
    whole: Any = {
        "column": listed,
        "struct": {"type": "struct", "fields": [field(4, "in", listed)]},
        "map": {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": listed,
                "value-required": False},
    }[inside]  # fmt: skip

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=[field(1, "id", "long"), field(2, "l", whole)])
        column = maker.metadata.current_schema()["fields"][1]
        stored = column["type"]
        ids = {"column": lambda: stored, "struct": lambda: stored["fields"][0]["type"],
               "map": lambda: stored["value"]}[inside]()  # fmt: skip

        def identified(name: str, field_id: int, arrow_type: pa.DataType) -> pa.Field[Any]:
            return pa.field(name, arrow_type, metadata={IDS: str(field_id)})

        list_type = LISTS[layout](lambda of: identified("element", ids["element-id"], of))
        values: list[Any] = [["a", "b"], ["c", None]]
        if inside == "struct":
            list_type = pa.struct([identified("in", stored["fields"][0]["id"], list_type)])
            values = [{"in": value} for value in values]
        elif inside == "map":
            key = pa.field("key", pa.large_string(), False, {IDS: str(stored["key-id"])})
            list_type = pa.map_(key, identified("value", stored["value-id"], list_type))
            values = [[("in", value)] for value in values]
        columns = {1: ("id", pa.int64()), column["id"]: ("l", list_type)}
        rows = list(zip((1, 2), values, strict=True))
        await maker.commit(await maker.data_file(columns, rows))

        expected = ['["a","b"]', '["c",null]']
        if inside != "column":
            expected = [f'{{"in":{text}}}' for text in expected]
        assert await local.rows("select l from t order by id") == [(text,) for text in expected]

    local_sql.run_local(tmp_path, work)


def test_a_column_that_a_file_holds_in_another_form_is_refused_with_that_reason(
    tmp_path: Path,
) -> None:
    listed = {"type": "list", "element-id": 3, "element": "string", "element-required": False}

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, fields=[field(1, "id", "long"), field(2, "l", listed)])
        columns = {1: ("id", pa.int64()), 2: ("l", pa.struct([("x", pa.int64())]))}
        await maker.commit(await maker.data_file(columns, [(1, {"x": 5})]))

        with pytest.raises(errors.SqlError) as caught:
            await local.rows("select l from t")
        assert "column l, which a file holds as struct<x: int64>" in caught.value.message

    local_sql.run_local(tmp_path, work)


def test_nested_columns_that_older_files_lack_are_null_there(tmp_path: Path) -> None:
    listed = {"type": "list", "element-id": 9, "element": "string", "element-required": False}
    mapped = {"type": "map", "key-id": 10, "key": "string", "value-id": 11, "value": "decimal(9,2)",
              "value-required": False}  # fmt: skip
    inner = {
        "type": "struct",
        "fields": [field(12, "x", "timestamptz"), field(13, "l", {**listed, "element-id": 14})],
    }

    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local)
        odd = {**COLUMNS, 4: ("__field_5", pa.int64())}
        await maker.commit(await maker.data_file(odd, [(1, "a", 1, 77)]))
        more = [field(5, "l", listed), field(6, "m", mapped), field(7, "s", inner)]
        await maker.new_schema([*BASE, *more])
        await local.run("insert into t (id) values (2)")

        assert await local.rows("select id, l, m, s from t order by id") == [
            (1, None, None, None),
            (2, None, None, None),
        ]
        assert await local.rows("select count(*), count(l), count(s) from t") == [(2, 0, 0)]
        assert await local.rows("select id from t where m is null and id > 1") == [(2,)]

    local_sql.run_local(tmp_path, work)


def test_a_file_with_the_length_and_crc_of_the_one_before_is_read_anew(tmp_path: Path) -> None:
    numbers = (0x1122334455667788, 0x1020304050607080)

    async def work(local: local_sql.LocalSql) -> None:
        await local.lake.tables.create(
            local.lake.ident("ns.t"),
            schema=lakes.SCHEMA,
            properties={"write.parquet.compression-codec": "uncompressed"},
            by=lakes.BY,
        )
        await local.run(f"insert into t(id) values ({numbers[0]}), ({numbers[1]})")
        assert await local.rows("select id from t order by id desc") == [(n,) for n in numbers]
        objects = local.lake.storage.objects
        (info,) = objects.list("lake", prefix="ns/t/data/").objects
        body = objects.read(info)
        stored = struct.pack("<qq", *numbers)
        forged = collisions.other_body(body, body.index(stored))
        at = body.index(stored)
        received = await local.lake.storage.blobs.store(forged, digests=folders.MD5)
        await objects.put("lake", info.key, received, attributes=info.attributes)
        expected = sorted(struct.unpack("<qq", forged[at : at + len(stored)]))
        assert await local.rows("select id from t order by id") == [(n,) for n in expected]

    local_sql.run_local(tmp_path, work)


def test_the_files_of_a_table_are_opened_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FILES_AT_ONCE", 2)

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        for number in range(7):
            await local.run(f"insert into t values ({number})")
        assert await local.rows("select count(*) from t") == [(7,)]
        assert sorted(await local.rows("select a from t")) == [(n,) for n in range(7)]
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.ensure_future(count_turns())
        await asyncio.sleep(0)
        table = pinned.snapshot_at(local.reader("ns.t"), None)
        read = local.statements._relations
        plan = await local.scans.plan(table.reader, schema=table.schema)
        before = turns
        opened = await read._opened(table, plan.tasks)
        assert [file.task for file in opened] == list(plan.tasks)
        assert turns - before >= 3
        counting.cancel()

    local_sql.run_local(tmp_path, work)


@pytest.mark.alone
def test_a_query_of_many_files_holds_the_loop_for_milliseconds_at_a_time(tmp_path: Path) -> None:
    """Measured in the loop's own processor time, from one turn to the next."""

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create iceberg table t (a int) partition by (a)")
        await local.run("insert into t select seq4() from table(generator(rowcount => 300))")
        turns: list[float] = []
        planned = asyncio.Event()

        async def measure_turns() -> None:
            before = time.thread_time()
            while not planned.is_set():
                await asyncio.sleep(0)
                now = time.thread_time()
                turns.append(now - before)
                before = now

        measuring = asyncio.ensure_future(measure_turns())
        for text, files in (
            ("select sum(a) from t", 300),
            ("select sum(a) from t where a > 9", 290),
        ):
            ((plan,),) = await local.rows(f"explain using text {text}")
            assert f"{files} of 300 files" in plan
        assert await local.rows("select sum(a) from t where a > 9") == [(44_850 - 45,)]
        planned.set()
        await measuring
        assert max(turns) < 0.02, sorted(turns)[-5:]

    local_sql.run_local(tmp_path, work)


def test_a_column_of_nanoseconds_keeps_them_or_refuses_to_lose_them(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, properties={"format-version": "3"})
        await maker.new_schema([*BASE, field(4, "n", "timestamp_ns")])
        columns = {**COLUMNS, 4: ("n", pa.timestamp("ns"))}
        fine, before = 1_704_067_200_123_456_789, -1
        await maker.commit(await maker.data_file(columns, [(1, "a", 1, fine), (2, "b", 2, before)]))
        await local.run("insert into t (id, n) values (3, '2024-01-01 00:00:00.123456789')")
        parts = "date_part(nanosecond, n), date_part(epoch_second, n)"
        epoch = "datediff(nanosecond, '1970-01-01'::timestamp, n)"
        assert await local.rows(f"select {parts}, {epoch} from t order by id") == [
            (123_456_789, fine // 10**9, fine),
            (999_999_999, -1, -1),
            (123_456_789, fine // 10**9, fine),
        ]
        text = "2024-01-01 00:00:00.12345678"
        assert await local.rows(f"select id from t where n > '{text}8' order by id") == [(1,), (3,)]
        assert await local.rows(f"select id from t where n > '{text}9' or n < '1970-01-01'") == [
            (2,)
        ]
        second = "select to_varchar(date_trunc('second', n), 'SS'), n::timestamp_ntz(0)::varchar"
        assert await local.rows(f"{second} from t where id = 2") == [
            ("59", "1969-12-31 23:59:59.000")
        ]
        await local.run("create table c clone t")
        await local.run("create table l like t")
        await local.run("insert into l select * from c")
        assert await local.rows(f"select {parts} from l order by id") == [
            (123_456_789, fine // 10**9),
            (999_999_999, -1),
            (123_456_789, fine // 10**9),
        ]
        await local.run("create table six (n timestamp_ntz(6), m timestamp_ntz)")
        for lossy in (
            *("select dateadd(second, 1, n) from t", "select n::time from t"),
            *("select n::timestamp_ltz from t", "select add_months(n, 1) from t"),
            *("create table u as select n from t", "insert into six (m) select n from t"),
        ):
            with pytest.raises(errors.SqlError, match="digits below a microsecond"):
                await local.rows(lossy)
        await local.run("insert into six select n, n::timestamp_ntz(6) from t where id = 2")
        last = datetime.datetime.fromisoformat("1969-12-31 23:59:59.999999")
        assert await local.rows("select n, m from six") == [(last, last)]

    local_sql.run_local(tmp_path, work)


UNSUPPORTED = re.compile("(?s).*Unsupported feature '(.*)'.*")


async def answer(local: local_sql.LocalSql, text: str) -> Any:
    """Return the rows of a text, or the feature that is unsupported in it."""
    try:
        return await local.rows(text)
    except errors.SqlError as error:
        return UNSUPPORTED.sub(r"\1", str(error))


def test_a_column_of_a_type_that_sql_does_not_read_is_refused_where_it_is_named(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, properties={"format-version": "3"})
        inner = {"type": "list", "element-id": 6, "element": "variant", "element-required": False}
        await maker.new_schema([*BASE, field(4, "x", "geometry"), field(5, "l", inner)])
        variant = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
        columns = {**COLUMNS, 4: ("x", pa.binary()), 5: ("l", pa.list_(variant))}
        one = {"metadata": b"\1\0\0", "value": b"\x0c\1"}
        rows = [(1, "a", 1, b"\1", [one]), (2, "b", 2, None, None)]
        await maker.commit(await maker.data_file(columns, rows))
        x = "column X of Iceberg type geometry"
        listed = "column L of Iceberg type variant"
        joined = "select a.id from t a join t b"
        expected = {
            "select id from t order by id": [(1,), (2,)],
            "select count(*) from t": [(2,)],
            "select * exclude (x, l) from t where id = 1": [(1, "a", 1)],
            "select * replace (3 as x, 4 as l) from t where id = 1": [(1, "a", 1, 3, 4)],
            "select * ilike 'i%' from t where v = 2": [(2,)],
            "select id, f.value::int from t, lateral flatten(array_construct(5)) f where id = 1": [
                (1, 5)
            ],
            f"{joined} on a.id = b.id order by 1": [(1,), (2,)],
            "insert into t (id) values (3)": [(1,)],
            "select max(id) from t sample (100)": [(3,)],
            "select * from t": x,
            "select t.* exclude x from t": listed,
            "select x from t": x,
            "select t.l from t": listed,
            "select $4 from t": x,
            "select x:a from t": x,
            "select id from t where x is null": x,
            "select object_construct(*) from t": x,
            f"{joined} using (x)": x,
            f"{joined.replace(' join', ' natural join')}": x,
            "create table u as select * from t": x,
            "insert into t (id, x) values (4, null)": x,
            "insert into t select id, name, v, null, null from t": x,
            "update t set id = 4": x,
            "delete from t where id = 1": x,
            "select id from t order by 1": [(1,), (2,), (3,)],
        }
        assert {text: await answer(local, text) for text in expected} == expected
        types = [row[1] for row in await local.rows("describe table t")]
        assert types[3:] == ["VARIANT", "ARRAY(VARIANT)"]

    local_sql.run_local(tmp_path, work)


def test_instants_of_nanoseconds_are_read_in_microseconds_or_refused(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await make(local, properties={"format-version": "3"})
        await maker.new_schema([*BASE, field(4, "z", "timestamptz_ns")])
        columns = {**COLUMNS, 4: ("z", pa.timestamp("ns", "UTC"))}
        whole, fine = 1_704_067_200_123_456_000, 1_704_067_200_123_456_789
        rows = [(1, "a", 1, whole), (2, "b", 2, fine), (3, "c", 3, None)]
        await maker.commit(await maker.data_file(columns, rows))
        await local.run("alter session set timezone = 'Asia/Tokyo'")
        shown = "2024-01-01 09:00:00.123456 +0900"
        text = "to_varchar(z, 'YYYY-MM-DD HH24:MI:SS.FF6 TZHTZM')"
        fine_digits = f"digits below a microsecond: {fine} nanoseconds"
        late = "2024-01-01 00:00:00.5 +0000"
        expected = {
            f"select id, {text} from t where id <> 2 order by id": [(1, shown), (3, None)],
            "select id from t where id <> 2 and z < '2024-01-01 00:00:01 +0000'": [(1,)],
            "select count(*) from t": [(3,)],
            "select z from t": fine_digits,
            f"insert into t (id, z) values (4, '{late}')": [(1,)],
            "select z = '2024-01-01 00:00:00.5 +0000' from t where id = 4": [(True,)],
            "update t set name = 'changed' where id = 2": [(1, 0)],
            "select z from t where id = 2": fine_digits,
        }
        assert {text: await answer(local, text) for text in expected} == expected
        types = [row[1] for row in await local.rows("describe table t")]
        assert types[3] == "TIMESTAMP_LTZ(9)"

    local_sql.run_local(tmp_path, work)


def test_a_table_that_was_read_before_is_read_without_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        await local.run("insert into t values (2)")
        text = "select a from t order by a"
        assert await local.rows(text) == [(1,), (2,)]
        with monkeypatch.context() as patch:
            patch.setattr(relations.Relations, "_group", unexpected)
            assert await local.rows(text) == [(1,), (2,)]
        await local.run("insert into t values (3)")
        assert await local.rows(text) == [(1,), (2,), (3,)]
        await local.run("delete from t where a = 2")
        assert await local.rows(text) == [(1,), (3,)]

    def unexpected(*_: Any) -> None:
        raise AssertionError("a folder is made in a thread that is there")

    local_sql.run_local(tmp_path, work)


def test_columns_follow_renames_new_types_claims_and_zones_between_equal_texts(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a number(9), z timestamp_ltz)")
        await local.run("insert into t values (2, '2024-01-01 00:00:00 +0000')")
        text = "select * from t"
        named = [
            [
                (each.name, each.precision)
                for each in (await local.run(text, describe_only=True)).columns
            ]
        ]
        await local.run("alter table t rename column a to b")
        named.append(
            [
                (each.name, each.precision)
                for each in (await local.run(text, describe_only=True)).columns
            ]
        )
        await local.run("alter table t alter column b set data type number(12)")
        named.append(
            [
                (each.name, each.precision)
                for each in (await local.run(text, describe_only=True)).columns
            ]
        )
        assert [[each[0] for each in names] for names in named] == [
            ["A", "Z"],
            ["B", "Z"],
            ["B", "Z"],
        ]
        assert [names[0][1] for names in named] == [9, 9, 12]
        by_zone = "select hour(z) from t"
        hours = []
        for zone in ("UTC", "Asia/Tokyo", "UTC"):
            await local.run(f"alter session set timezone = '{zone}'")
            hours.append(await local.one(by_zone))
        assert hours == [0, 9, 0]
        await local.run("insert into t values (999999999999, null)")
        assert await local.one("select sum(b) * 1000000 from t") == 1_000_000_000_001_000_000
        await local.run("create or replace table t (z int, b varchar)")
        assert [each.name for each in (await local.run(text, describe_only=True)).columns] == [
            "Z",
            "B",
        ]
        assert await local.rows(text) == []

    local_sql.run_local(tmp_path, work)
