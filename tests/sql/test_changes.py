"""DELETE, UPDATE and MERGE: answers, errors, the files that a commit replaces, other writers."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sql import bindings, deletes, errors, limits, outcomes, sessions
from tests.kit import datafiles, lakes, local_sql, tablefiles


async def refused(local: local_sql.LocalSql, text: str, **more: Any) -> errors.SqlError:
    with pytest.raises(errors.SqlError) as caught:
        await local.run(text, **more)
    return caught.value


async def live(local: local_sql.LocalSql, dotted: str = "ns.t") -> list[str]:
    plan = await local.scans.plan(local.reader(dotted))
    return sorted(task.data_file.file_path for task in plan.tasks)


def head(local: local_sql.LocalSql, dotted: str = "ns.t") -> Any:
    return local.lake.load(local.lake.ident(dotted)).metadata.current_snapshot()


async def two_tables(local: local_sql.LocalSql) -> None:
    await local.run("create table t (id int not null, v varchar(5), n number(9,2), d date)")
    await local.run("insert into t values (1, 'a', 1.5, '2024-01-01'), (2, 'b', 2.5, null)")
    await local.run("insert into t values (3, null, null, '2024-02-03')")
    await local.run("create table s (id int, v varchar, q int)")
    await local.run("insert into s values (2, 'bb', 1), (3, 'cc', 2), (9, 'zz', 3)")


ALL = "select * from t order by id"
DAY = datetime.date(2024, 1, 1)
THIRD = (3, None, None, datetime.date(2024, 2, 3))


@pytest.mark.parametrize(
    ("text", "names", "answer", "statement_type", "stats"),
    [
        (
            "delete from t where id > 1",
            ["number of rows deleted"],
            (2,),
            outcomes.StatementType.DELETE,
            outcomes.Stats(rows_deleted=2),
        ),
        (
            "update t set v = 'x' where id = 2",
            ["number of rows updated", "number of multi-joined rows updated"],
            (1, 0),
            outcomes.StatementType.UPDATE,
            outcomes.Stats(rows_updated=1),
        ),
        (
            "merge into t using s on t.id = s.id when matched and q = 1 then delete "
            "when matched then update set v = s.v "
            "when not matched then insert (id, v) values (id, v)",
            ["number of rows inserted", "number of rows updated", "number of rows deleted"],
            (1, 1, 1),
            outcomes.StatementType.MERGE,
            outcomes.Stats(rows_inserted=1, rows_updated=1, rows_deleted=1),
        ),
        (
            "merge into t using s on t.id = s.id when not matched then insert (id) values (s.id)",
            ["number of rows inserted"],
            (1,),
            outcomes.StatementType.MERGE,
            outcomes.Stats(rows_inserted=1),
        ),
    ],
)
def test_a_change_answers_its_counts_once_and_again_for_the_same_query_id(
    tmp_path: Path,
    text: str,
    names: list[str],
    answer: tuple[int, ...],
    statement_type: int,
    stats: outcomes.Stats,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        described = await local.run(text, describe_only=True)
        assert [column.name for column in described.columns] == names
        assert described.statement_type_id == statement_type
        before = await local.rows(ALL)
        query_id = str(uuid.uuid4())
        for _ in range(2):
            outcome = await local.run(text, query_id=query_id)
            assert [column.name for column in outcome.columns] == names
            assert outcome.rows == (answer,)
            assert outcome.statement_type_id == statement_type
            assert outcome.stats == stats
            assert not outcome.array_bind_supported
        after = await local.rows(ALL)
        assert len(after) == len(before) + stats.rows_inserted - stats.rows_deleted

    local_sql.run_local(tmp_path, work)


def test_update_computes_from_the_old_values_and_leaves_other_columns(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run("update t x set n = x.id, id = n * 10, v = default where x.n is not null")
        assert await local.rows(ALL) == [
            THIRD,
            (15, None, Decimal("1.00"), DAY),
            (25, None, Decimal("2.00"), None),
        ]

    local_sql.run_local(tmp_path, work)


def test_merge_takes_the_first_clause_that_applies(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run(
            "merge into t using (select * from s) as u on t.id = u.id"
            " when matched and u.q > 1 then update set v = 'one', d = '2024-01-01'"
            " when matched and u.q > 0 then update set t.v = u.v || '!'"
            " when not matched and u.q < 3 then insert (id, v) values (0, 'no')"
            " when not matched then insert values (id * 2, v, 10 / q, default)"
        )
        assert await local.rows(ALL) == [
            (1, "a", Decimal("1.50"), DAY),
            (2, "bb!", Decimal("2.50"), None),
            (3, "one", None, DAY),
            (18, "zz", Decimal("3.33"), None),
        ]

    local_sql.run_local(tmp_path, work)


def test_a_clause_computes_nothing_for_rows_to_which_it_does_not_apply(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run("update s set q = 0 where id = 3")
        await local.run(
            "merge into t using s on t.id = s.id"
            " when matched and q <> 0 then update set n = 1 / q, v = 'x'"
            " when matched then delete"
        )
        assert await local.rows("select id, v, n from t order by id") == [
            (1, "a", Decimal("1.50")),
            (2, "x", Decimal("1.00")),
        ]

    local_sql.run_local(tmp_path, work)


def test_a_volatile_condition_of_a_merge_has_one_value_in_each_row(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run(
            "merge into t using s on t.id = s.id when matched and mod(random(), 2) = 0 "
            "then update set v = 'even' when matched then update set v = 'odd'"
        )
        values = [row[1] for row in await local.rows(ALL)]
        assert values[0] == "a"
        assert set(values[1:]) <= {"even", "odd"}

    local_sql.run_local(tmp_path, work)


def test_a_row_that_a_merge_would_change_twice_is_an_error_unless_all_delete_it(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run("insert into s values (3, 'dd', 4)")
        before = head(local)
        merge = "merge into t using s on t.id = s.id when matched"
        for text in (
            f"{merge} then update set v = s.v",
            f"{merge} and q = 2 then delete when matched then update set v = s.v",
        ):
            error = await refused(local, text)
            assert (error.code, error.sqlstate) == ("100090", "42P18")
        assert head(local) == before
        assert await local.rows(f"{merge} and q = 4 then update set v = s.v") == [(1,)]
        assert await local.one("select v from t where id = 3") == "dd"
        await local.run("alter session set error_on_nondeterministic_merge = false")
        assert await local.rows(f"{merge} then update set v = s.v") == [(2,)]
        assert await local.one("select v from t where id = 3") in ("cc", "dd")
        assert await local.rows(f"{merge} then delete") == [(2,)]
        assert await local.rows("select id from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_update_from_takes_any_of_several_rows_unless_the_session_forbids_it(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run("insert into s values (3, 'dd', 4)")
        text = "update t set v = s.v from s where t.id = s.id"
        assert await local.rows(text) == [(2, 1)]
        assert await local.one("select v from t where id = 3") in ("cc", "dd")
        assert await local.rows("delete from t using s where t.id = s.id") == [(2,)]
        await local.run("insert into t (id) values (3)")
        await local.run("alter session set error_on_nondeterministic_update = true")
        assert (await refused(local, text)).code == "100090"

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("update t set v = 'longer' where id = 1", "100078"),
        ("update t set id = null where id = 1", "100072"),
        ("update t set n = 1e8 where id = 1", "100039"),
        ("update t set d = 'no date' where id = 1", "100040"),
        ("update t set id = 1, id = 2", "002025"),
        ("update t set x = 1", "000904"),
        ("update t set s.id = 1 from s where t.id = s.id", "000904"),
        ("delete from t where x = 1", "000904"),
        ("delete from nothing", "002003"),
        ("merge into t using s on t.id = s.id when matched then update set v = v", "002028"),
        ("merge into t using s on t.id = s.id when not matched then insert (id) values (t.id)", ""),
        (
            "merge into t using s on t.id = s.id when not matched then insert values (1)",
            "002020",
        ),
        (
            "merge into t using s on t.id = s.id when not matched then insert (v) values ('a')",
            "100072",
        ),
        (
            "merge into t using s on t.id = s.id when matched then delete "
            "when matched then update set v = 'a'",
            "001003",
        ),
        ("merge into t using s on t.id = s.id when not matched by source then delete", "000002"),
        ("merge into t using s on t.id = s.id when matched then update set *", "000002"),
        ("merge into t using s on t.id = s.id when not matched then insert *", "000002"),
        ("update t at (offset => -1) set v = 'a'", "000002"),
        ("update t set v = *", "000002"),
        ("update t set v = t.* where id = 1", "000002"),
        ("delete from information_schema.tables", "002003"),
    ],
)
def test_a_refused_change_changes_nothing(tmp_path: Path, text: str, code: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        before = head(local)
        error = await refused(local, text)
        if code:
            assert error.code == code
        assert head(local) == before
        scratch = local.lake.storage.path / "tmp"
        assert [path for path in scratch.iterdir() if path.is_dir()] == []

    local_sql.run_local(tmp_path, work)


def test_only_files_with_a_changed_row_are_written_anew(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, v varchar)")
        for first in (0, 10, 20):
            listed = ", ".join(f"({first + n}, 'v')" for n in range(3))
            await local.run(f"insert into t values {listed}")
        one, two, three = await live(local)
        await local.run("update t set v = 'x' where id in (11, 500)")
        changed = await live(local)
        assert len(changed) == 3
        assert len({one, two, three} & set(changed)) == 2
        assert head(local)["summary"]["operation"] == "overwrite"
        await local.run("delete from t where id >= 20")  # all rows of a file: none is written
        assert set(await live(local)) < set(changed)
        assert head(local)["summary"]["operation"] == "delete"
        assert head(local)["summary"]["boathouse.rows-deleted"] == "3"
        before = head(local)
        assert await local.rows("update t set v = 'y' where id = 11 and v = 'none'") == [(0, 0)]
        assert head(local) == before  # nothing changed, so nothing is committed
        assert await local.rows("delete from t") == [(6,)]
        assert await live(local) == []
        assert head(local)["summary"]["total-records"] == "0"

    local_sql.run_local(tmp_path, work)


def test_delete_of_all_rows_opens_no_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)

        async def run(query: Any) -> None:
            raise AssertionError("the engine has nothing to do")

        monkeypatch.setattr(local.engine, "run", run)
        assert await local.rows("delete from t") == [(3,)]
        assert await live(local) == []

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("form", ["positions", "vector", "equality"])
def test_rows_that_other_writers_have_deleted_stay_deleted(tmp_path: Path, form: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        version = "3" if form == "vector" else "2"
        maker = await tablefiles.make(local, properties={"format-version": version})
        file = await maker.data_file(
            tablefiles.COLUMNS, [(number, f"n{number}", number * 2) for number in range(6)]
        )
        await maker.commit(file)
        await maker.delete(form, file, [1, 4])
        assert await local.rows("update t set v = -v where id in (0, 1)") == [(1, 0)]
        expected = [(0, "n0", 0), (2, "n2", 4), (3, "n3", 6), (5, "n5", 10)]
        assert await local.rows(ALL) == expected
        assert await local.rows("delete from t where id < 3") == [(2,)]
        assert await local.rows(ALL) == expected[2:]
        other = await maker.data_file(tablefiles.COLUMNS, [(number, "o", 0) for number in range(3)])
        await maker.commit(other)
        await maker.delete(form, other, [2])
        assert await local.rows("delete from t") == [(4,)]
        assert await local.rows(ALL) == []
        loaded = local.lake.load(maker.ident)
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        assert datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out") == []

    local_sql.run_local(tmp_path, work)


NESTED = [
    tablefiles.field(1, "id", "long"),
    tablefiles.field(2, "u", "uuid"),
    tablefiles.field(
        3,
        "place",
        {
            "type": "struct",
            "fields": [tablefiles.field(8, "name", "string"), tablefiles.field(9, "x", "float")],
        },
    ),
    tablefiles.field(
        4, "marks", {"type": "list", "element-id": 10, "element": "int", "element-required": False}
    ),
    tablefiles.field(
        5,
        "tags",
        {
            "type": "map",
            "key-id": 11,
            "key": "string",
            "value-id": 12,
            "value": "string",
            "value-required": False,
        },
    ),
    tablefiles.field(6, "f", "float"),
    tablefiles.field(7, "code", "fixed[3]"),
]


def test_columns_that_sql_cannot_compute_keep_their_values(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await tablefiles.make(local, fields=NESTED)
        ids = {tablefiles.IDS: "8"}, {tablefiles.IDS: "9"}
        columns: dict[int, tuple[str, pa.DataType]] = {
            1: ("id", pa.int64()),
            2: ("u", pa.uuid()),
            3: (
                "place",
                pa.struct(
                    [
                        pa.field("name", pa.string(), metadata=ids[0]),
                        pa.field("x", pa.float32(), metadata=ids[1]),
                    ]
                ),
            ),
            4: (
                "marks",
                pa.list_(pa.field("element", pa.int32(), metadata={tablefiles.IDS: "10"})),
            ),
            5: (
                "tags",
                pa.map_(
                    pa.field("key", pa.string(), nullable=False, metadata={tablefiles.IDS: "11"}),
                    pa.field("value", pa.string(), metadata={tablefiles.IDS: "12"}),
                ),  # type: ignore[call-overload]  # stubs want types
            ),
            6: ("f", pa.float32()),
            7: ("code", pa.binary(3)),
        }
        key = uuid.UUID(int=7)
        rows: list[tuple[Any, ...]] = [
            (1, key.bytes, {"name": "a", "x": 1.1}, [1, None], [("k", "v")], 0.1, b"abc"),
            (2, None, None, None, None, None, None),
            (3, key.bytes, {"name": None, "x": None}, [], [], float("inf"), b"xyz"),
        ]
        await maker.commit(await maker.data_file(columns, rows))
        await local.run("create table s (id int)")
        await local.run("insert into s values (3), (4)")
        await local.run(
            "merge into t using s on t.id = s.id when matched then update set id = 30"
            " when not matched then insert (id, f) values (s.id, 1.5)"
        )
        loaded = local.lake.load(maker.ident)
        metadata_file = datafiles.bench(local.lake).export(loaded, tmp_path / "out")
        for read in (
            datafiles.rows_by_pyiceberg(metadata_file, tmp_path / "out"),
            datafiles.rows_by_duckdb(metadata_file, tmp_path / "extensions"),
        ):
            in_order = sorted((_plain(row) for row in read), key=lambda row: row["id"])
            empty = dict.fromkeys(("u", "place", "marks", "tags", "f", "code"))
            assert in_order == [
                {
                    "id": 1,
                    "u": key,
                    "place": {"name": "a", "x": pytest.approx(1.1)},
                    "marks": [1, None],
                    "tags": {"k": "v"},
                    "f": pytest.approx(0.1),
                    "code": b"abc",
                },
                {"id": 2, **empty},
                {"id": 4, **empty, "f": 1.5},
                {
                    "id": 30,
                    "u": key,
                    "place": {"name": None, "x": None},
                    "marks": [],
                    "tags": {},
                    "f": float("inf"),
                    "code": b"xyz",
                },
            ]

    local_sql.run_local(tmp_path, work)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its UUID and its map as Python has them."""
    shown = dict(row)
    if isinstance(shown["u"], bytes | str):
        named = {"bytes" if isinstance(shown["u"], bytes) else "hex": shown["u"]}
        shown["u"] = uuid.UUID(**named)
    if shown["tags"] is not None:
        shown["tags"] = dict(shown["tags"])
    return shown


def test_rows_that_are_not_changed_are_not_checked(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, name varchar(3))")
        maker = tablefiles.Maker(local=local, ident=local.lake.ident("ns.t"))
        columns = {1: ("id", pa.int64()), 2: ("name", pa.string())}
        await maker.commit(await maker.data_file(columns, [(1, "too long"), (2, "b"), (3, "c")]))
        await local.run("delete from t where id = 3")
        await local.run("update t set name = 'x' where id = 2")
        assert await local.rows(ALL) == [(1, "too long"), (2, "x")]
        assert (await refused(local, "update t set name = name || 'y'")).code == "100078"

    local_sql.run_local(tmp_path, work)


def test_a_change_of_rows_of_an_older_partition_and_schema_writes_the_current_ones(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await tablefiles.make(local)
        rows = [(number, f"n{number}", number) for number in range(4)]
        await maker.commit(await maker.data_file(tablefiles.COLUMNS, rows))
        await maker.update(
            {
                "action": "add-spec",
                "spec": {"fields": [{"source-id": 1, "name": "half", "transform": "truncate[2]"}]},
            },
            {"action": "set-default-spec", "spec-id": -1},
        )
        fields = [*tablefiles.BASE[:1], tablefiles.field(2, "label", "string")]
        await maker.new_schema([*fields, tablefiles.field(4, "w", "double")])
        await local.run("update t set w = id / 2, label = label || '!' where id > 0")
        assert await local.rows(ALL) == [
            (0, "n0", None),
            (1, "n1!", 0.5),
            (2, "n2!", 1.0),
            (3, "n3!", 1.5),
        ]
        plan = await local.scans.plan(local.reader("ns.t"))
        assert sorted(task.data_file.partition for task in plan.tasks) == [(0,), (2,)]

    local_sql.run_local(tmp_path, work)


def test_rows_keep_their_order_and_a_sort_order_is_followed(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, v varchar)")
        await local.run("insert into t values (5, 'e'), (1, 'a'), (4, 'd'), (2, 'b')")
        await local.run("update t set v = 'x' where id = 4")
        assert await local.rows("select * from t") == [(5, "e"), (1, "a"), (4, "x"), (2, "b")]
        await local.run("create table u (id int, v varchar) cluster by (id)")
        await local.run("insert into u select * from t")
        await local.run("update u set id = 3 where id = 5")
        assert await local.rows("select * from u") == [(1, "a"), (2, "b"), (3, "e"), (4, "x")]

    local_sql.run_local(tmp_path, work)


def test_placeholders_have_their_places_in_the_text(tmp_path: Path) -> None:
    def binds(*values: Any) -> dict[str, bindings.Binding]:
        return {
            str(number): bindings.Binding(
                type="fixed" if isinstance(value, int) else "text", values=(value,)
            )
            for number, value in enumerate(values, start=1)
        }

    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        text = "update t set v = ?, n = ? where id = ?"
        described = await local.run(text, describe_only=True)
        assert described.bind_count == 3
        outcome = await local.run(text, bindings=binds("new", 7, 2))
        assert (outcome.rows, outcome.bind_count) == (((1, 0),), 3)
        assert await local.rows("select v, n from t where id = 2") == [("new", Decimal("7.00"))]
        await local.run("delete from t where id = ?", bindings=binds(2))
        await local.run(
            "merge into t using (select id + ? as id, v from s where q = ?) as u"
            " on t.id = u.id and t.id < ? when matched and u.v = ? then update set v = ?, n = ?"
            " when not matched then insert (id, v) values (?, ?)",
            bindings=binds(1, 1, 100, "bb", "m", 3, 50, "i"),
        )
        assert await local.rows("select id, v, n from t order by id") == [
            (1, "a", Decimal("1.50")),
            (3, "m", Decimal("3.00")),
        ]
        array = {"1": bindings.Binding(type="fixed", values=(1, 2), is_array=True)}
        assert (await refused(local, "delete from t where id = ?", bindings=array)).code == "000002"

    local_sql.run_local(tmp_path, work)


def test_rows_appended_meanwhile_stay_and_any_other_commit_has_the_change_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        maker = await tablefiles.make(local)
        first = await maker.data_file(tablefiles.COLUMNS, [(1, "a", 1), (2, "b", 2)])
        await maker.commit(first)
        transactions = local.statements._changes._transactions
        races: list[Callable[[], Awaitable[None]]] = []
        runs = 0

        async def append() -> None:
            await maker.commit(await maker.data_file(tablefiles.COLUMNS, [(3, "c", 3)]))

        async def delete() -> None:
            (file, *_) = [
                task.data_file for task in (await local.scans.plan(local.reader("ns.t"))).tasks
            ]
            await maker.delete("positions", file, [0])

        keep = transactions.keep

        async def race(*arguments: Any) -> None:
            nonlocal runs
            runs += 1
            if races:
                await races.pop(0)()
            await keep(*arguments)

        monkeypatch.setattr(transactions, "keep", race)
        races.append(append)
        assert await local.rows("update t set v = v + 10") == [(2, 0)]
        assert await local.rows(ALL) == [(1, "a", 11), (2, "b", 12), (3, "c", 3)]
        assert runs == 1
        races.append(delete)
        assert await local.rows("update t set v = v + 100") == [(2, 0)]
        assert len(await local.rows(ALL)) == 2
        assert runs == 3
        files = await live(local)
        races.extend([delete] * limits.CHANGE_ATTEMPTS_MAX)
        error = await refused(local, "update t set v = v + 1000 where id < 0 or v > 0")
        assert error.code == "000625"
        assert await live(local) == files

    local_sql.run_local(tmp_path, work)


def test_concurrent_updates_of_two_sessions_are_all_kept(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, n int)")
        await local.run("insert into t values (1, 0), (2, 0)")
        session = sessions.Session(id=2, principal=lakes.ROOT, database="lake", schema="ns")
        other = dataclasses.replace(local, session=session)

        async def count(of_session: local_sql.LocalSql) -> None:
            for _ in range(5):
                await of_session.run("update t set n = n + 1")

        await asyncio.gather(count(local), count(other))
        assert await local.rows("select * from t order by id") == [(1, 10), (2, 10)]

    local_sql.run_local(tmp_path, work)


def test_a_transaction_holds_a_change_until_it_commits(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        files = await live(local)
        for end, left in (("rollback", 3), ("commit", 2)):
            await local.run("begin")
            assert await local.rows("delete from t where id = 1") == [(1,)]
            assert await live(local) == files
            await local.run(end)
            assert await local.one("select count(*) from t") == left

    local_sql.run_local(tmp_path, work)


def test_a_failed_commit_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        loaded = local.lake.load(local.lake.ident("ns.t"))
        bench = datafiles.bench(local.lake)
        keys = bench.keys(loaded, "data"), bench.keys(loaded)
        judged: list[str] = []

        def judge(*arguments: Any) -> Any:
            def check(*places: Any) -> None:
                judged.append("")
                raise errors.not_authorized("the right has been taken away")

            return check

        monkeypatch.setattr(local.statements._changes._places, "judge", judge)
        error = await refused(local, "update t set v = 'x'")
        assert (error.code, bool(judged)) == ("003001", True)
        assert (bench.keys(loaded, "data"), bench.keys(loaded)) == keys

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("update t set v = 'x' where k < 10", 200),
        ("update t set v = 'x'", 20_000),
        ("update t set v = 'x' where upper(v) = 'V7'", 1),
        ("update t set v = 'x' where v like '%77'", 200),
        ("update t set v = s.v from s where t.id = s.id and s.id % 2 = 0", 50),
        ("delete from t where mod(id, 4) = 1", 5_000),
        ("delete from t where length(v) = 2 or length(v) = 3", 100),
        ("update t set v = upper(v) || upper(v) where length(v) = 2 or length(v) = 3", 100),
        ("delete from t where exists (select 1 from t u where u.id = t.id + 15000)", 5_000),
        ("delete from t where id in (select id * 3 from s)", 100),
        ("delete from t using t as u where t.id = u.id + 1 and u.k = 0", 20),
        ("merge into t using s on t.id = s.id and t.k < 50 when matched then delete", 50),
        (
            "merge into t using (select id * 400 as id, v from s) s on t.id = s.id "
            "when matched then update set v = s.v when not matched then insert (id) values (id)",
            100,
        ),
    ],
)
def test_changes_of_files_of_many_batches_find_their_rows_in_every_plan(
    tmp_path: Path, text: str, changed: int
) -> None:
    numbers = "(select row_number() over (order by seq4()) - 1 as n from table(generator({})))"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, k int, v varchar)")
        rows = numbers.format("rowcount => 20000")
        await local.run(f"insert into t select n, mod(n, 1000), 'v' || n from {rows}")
        await local.run("create table s (id int, v varchar)")
        rows = numbers.format("rowcount => 100")
        await local.run(f"insert into s select n, 's' || n from {rows}")
        (answer,) = await local.rows(text)
        assert sum(answer) == changed
        kept = 20_000 - (changed if "delete" in text else 0)
        if "not matched" in text:
            kept += 50  # of the ids 0, 400 ... 39,600 the upper half is new
        assert await local.one("select count(*) from t") == kept
        assert await local.one("select count(distinct id) from t") == kept
        if "delete" not in text:
            rewritten = "select count(*) from t where v <> 'v' || id or v is null"
            assert await local.one(rewritten) == changed

    local_sql.run_local(tmp_path, work)


def test_merge_fills_the_columns_that_it_does_not_list_with_their_defaults(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run(
            "create table t (n int autoincrement start 10 increment 5, id int, v varchar(9) "
            "default 'none', u varchar default current_user(), d date)"
        )
        await local.run("insert into t (id) values (1), (2)")
        await local.run("create table s (id int)")
        await local.run("insert into s values (2), (3), (4)")
        await local.run(
            "merge into t using s on t.id = s.id when matched then update set v = 'x', u = null"
            " when not matched and s.id = 3 then insert (id, d) values (id, '2024-01-01')"
            " when not matched then insert (id, v, u) values (id, default, 'me')"
        )
        rows = await local.rows("select n, id, v, u, d from t order by id")
        numbers = sorted(row[0] for row in rows)
        assert numbers == [10, 15, 20, 25]
        assert [row[1:] for row in rows] == [
            (1, "none", "ROOT", None),
            (2, "x", None, None),
            (3, "none", "ROOT", DAY),
            (4, "none", "me", None),
        ]
        await local.run("update t set v = 'y', u = default where id > 2")
        assert await local.rows("select distinct v, u from t where id > 2") == [("y", "ROOT")]
        assert (await refused(local, "update t set n = default")).code == "000002"

    local_sql.run_local(tmp_path, work)


def test_a_view_is_a_source_and_no_target(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        await local.run("create view w as select id, v || '!' as v from s where q < 3")
        await local.run("merge into t using w on t.id = w.id when matched then update set v = w.v")
        await local.run("delete from t where id not in (select id from w)")
        assert await local.rows("select id, v from t order by id") == [(2, "bb!"), (3, "cc!")]
        for text in ("delete from w", "update w set v = 'x'"):
            assert (await refused(local, text)).code != ""
        assert await local.one("select count(*) from w") == 2

    local_sql.run_local(tmp_path, work)


def test_changes_in_a_transaction_see_its_own_rows_and_commit_together(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await two_tables(local)
        before = head(local)
        for end in ("rollback", "commit"):
            await local.run("begin")
            await local.run("insert into t (id, v) values (7, 'new')")
            assert await local.rows("update t set v = v || '1' where id in (1, 7)") == [(2, 0)]
            assert await local.rows("delete from t where v = 'a1'") == [(1,)]
            merge = "merge into t using s on t.id = s.id when matched then update set v = s.v"
            assert await local.rows(merge) == [(2,)]
            assert await local.rows("delete from s") == [(3,)]
            expected = [(2, "bb"), (3, "cc"), (7, "new1")]
            assert await local.rows("select id, v from t order by id") == expected
            assert head(local) == before
            await local.run(end)
        assert await local.rows("select id, v from t order by id") == expected
        assert await local.one("select count(*) from s") == 0

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_of_a_table_of_version_3_keep_their_row_ids(tmp_path: Path, mode: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        modes = {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
        maker = await tablefiles.make(local, properties={"format-version": "3", **modes})
        columns = {**tablefiles.COLUMNS}
        for first in (0, 3):
            rows = [(number, f"n{number}", number) for number in range(first, first + 3)]
            await maker.commit(await maker.data_file(columns, rows))
        await local.run("update t set v = 10 where id = 1")
        assert await lineage(local) == [
            (0, 0, 1),
            (1, 1, 3),
            (2, 2, 1),
            (3, 3, 2),
            (4, 4, 2),
            (5, 5, 2),
        ]
        await local.run("delete from t where id in (2, 4)")
        await local.run("insert into t (id) values (9)")
        await local.run(
            "merge into t using (select 5 as id union all select 20) s on t.id = s.id"
            " when matched then update set v = 1 when not matched then insert (id) values (id)"
        )
        lineages = await lineage(local)
        assert [row[:2] for row in lineages[:4]] == [(0, 0), (1, 1), (3, 3), (5, 5)]
        assert [row[2] for row in lineages] == [1, 3, 2, 6, 5, 6]
        row_ids = [row[1] for row in lineages]
        assert len(set(row_ids)) == len(row_ids)
        assert max(row_ids) < maker.metadata.next_row_id

    local_sql.run_local(tmp_path, work)


async def lineage(local: local_sql.LocalSql) -> list[tuple[int, int, int]]:
    """Return the id, row id and last update of each row, as the specification has them read."""
    plan = await local.scans.plan(local.reader("ns.t"))
    lineages = []
    for task in plan.tasks:
        file, reader = task.data_file, local.reader("ns.t")
        data = local.files.read(local.files.open(reader.file(file.file_path)))
        rows = pq.read_table(pa.BufferReader(data)).to_pylist()
        gone: set[int] = set()
        for each in task.deletes:
            assert each.content_offset is not None
            assert each.content_size_in_bytes is not None
            vectors = local.files.read(local.files.open(reader.file(each.file_path)))
            stop = each.content_offset + each.content_size_in_bytes
            gone |= set(deletes.read_vector(vectors[each.content_offset : stop]))
        for position, row in enumerate(rows):
            assert file.first_row_id is not None
            if position in gone:
                continue
            row_id = row.get("_row_id")
            updated = row.get("_last_updated_sequence_number")
            lineages.append(
                (
                    row["id"],
                    file.first_row_id + position if row_id is None else row_id,
                    task.sequence_number if updated is None else updated,
                )
            )
    return sorted(lineages)


@pytest.mark.parametrize(
    "text",
    [
        "delete from t where k = 2 and id > 0",
        "update t set v = 'x' where k = 2",
        "update t set v = s.v from s where t.id = s.id and t.k = 2",
        "merge into t using s on t.id = s.id and t.k = 2 when matched then delete",
        "merge into t using s on t.id = s.id and t.k = 2 when matched then update set v = 'm'"
        " when not matched then insert (id, k) values (s.id, 2)",
    ],
)
def test_files_that_the_condition_excludes_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, k int, v varchar) partition by (k)")
        await local.run("insert into t values (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
        await local.run("create table s (id int, v varchar)")
        await local.run("insert into s values (2, 'bb'), (3, 'cc')")
        read = local.statements._changes._relations
        numbered, sizes = read.numbered, []

        async def counted(table: Any, name: str, tasks: Any, **more: Any) -> Any:
            sizes.append(len(tasks))
            return await numbered(table, name, tasks, **more)

        monkeypatch.setattr(read, "numbered", counted)
        await local.run(text)
        assert set(sizes) <= {0, 1}
        assert await local.one("select count(*) from t where k <> 2") == 2
        assert await local.one("select count(*) from t where id = 2 and v = 'b'") == 0

    local_sql.run_local(tmp_path, work)


def test_an_outer_join_prunes_the_files_of_its_right_table_alone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (id int, k int) partition by (k)")
        await local.run("insert into t values (1, 1), (2, 2), (3, null)")
        await local.run("create table s (id int, k int) partition by (k)")
        await local.run("insert into s values (1, 1), (2, 2), (3, null), (4, 4)")
        joined = "select s.id, t.id from s left join t on s.id = t.id"
        assert await local.rows(f"{joined} and t.k = 2 order by 1") == [
            (1, None),
            (2, 2),
            (3, None),
            (4, None),
        ]
        assert await local.rows(f"{joined} and t.k is null and s.k is null order by 1") == [
            (1, None),
            (2, None),
            (3, 3),
            (4, None),
        ]
        (lines,) = await local.rows(f"explain using text {joined} and t.k = 2")
        assert "4 of 4 files" in lines[0]
        assert "1 of 3 files" in lines[0]

    local_sql.run_local(tmp_path, work)


def test_values_of_every_type_are_kept_and_changed_exactly(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("alter session set timezone = 'America/New_York'")
        await local.run(
            "create table t (id int, z timestamp_ltz, m timestamp_ntz, c time, b boolean, f float,"
            " x binary, n number(38,5)) partition by (day(z))"
        )
        await local.run(
            "insert into t select 1, '2024-11-03 01:30:00 -0400'::timestamp_ltz,"
            " '2024-01-01 00:00:00.123456', '10:11:12.5', true, 1e300, to_binary('ab', 'hex'),"
            " 12345678901234567890123.45678"
        )
        text = "select id, z::varchar, m::varchar, c::varchar, b, f, x, n from t"
        (row,) = await local.rows(text)
        await local.run("update t set id = 2")
        assert await local.rows(text) == [(2, *row[1:])]
        await local.run(  # the second 01:30 of the day on which summer time ends
            "update t set z = '2024-11-03 01:30:00 -0500'::timestamp_ltz, m = dateadd(day, 1, m),"
            " c = '23:59:59.999999', b = not b, f = 'inf'::float, x = to_binary('00ff', 'hex'),"
            " n = n + 0.00001"
        )
        assert await local.rows(text) == [
            (
                2,
                "2024-11-03 01:30:00.000 -0500",
                "2024-01-02 00:00:00.123",
                "23:59:59",
                False,
                float("inf"),
                b"\x00\xff",
                Decimal("12345678901234567890123.45679"),
            )
        ]
        assert await local.one("select m = '2024-01-02 00:00:00.123456' from t")

    local_sql.run_local(tmp_path, work)


def test_merge_all_by_name_pairs_columns_whatever_their_order(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, b int, c varchar)")
        await local.run("insert into t values (1, 2, 'x'), (2, 3, 'y'), (3, 4, 'z')")
        await local.run("create table s (c varchar, a int, b int)")
        await local.run("insert into s values ('new', 1, 20), ('added', 9, 90), ('gone', 3, 200)")
        text = (
            "merge into t using s on t.a = s.a when matched and s.b > 100 then delete "
            "when matched then update all by name "
            "when not matched and s.b < 0 then insert (a) values (s.a + 1) "
            "when not matched then insert all by name"
        )
        assert await local.rows(text) == [(1, 1, 1)]
        assert await local.rows("select * from t order by a") == [
            (1, 20, "new"),
            (2, 3, "y"),
            (9, 90, "added"),
        ]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("select 'q' c, 2 a", "002020"),
        ("select 'q' c, 2 a, 3 b, 4 d", "002020"),
        ("select 'q' c, 2 a, 3 x", "000904"),
    ],
)
def test_merge_all_by_name_needs_the_tables_own_columns(
    tmp_path: Path, source: str, code: str
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int, b int, c varchar)")
        await local.run("insert into t values (2, 3, 'y')")
        merge = f"merge into t using ({source}) s on t.a = s.a when matched then update all by name"
        assert (await refused(local, merge)).code == code
        assert await local.rows("select * from t") == [(2, 3, "y")]

    local_sql.run_local(tmp_path, work)
