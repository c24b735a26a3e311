"""Transactions: what they read, what COMMIT makes of them, and what conflicts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from catalog import errors as catalog_errors
from catalog import holds, tables
from catalog.metadata import errors as metadata_errors
from server.access import model
from sql import errors, limits, sessions, transactions, writes
from tests.kit import local_sql, sweeps

READS_WRITES = (
    "s3tables:GetTable",
    "s3tables:GetTableMetadataLocation",
    "s3tables:GetTableData",
    "s3tables:PutTableData",
    "s3tables:UpdateTableMetadataLocation",
)


class Other:
    """A second session over the same statements."""

    def __init__(
        self, local: local_sql.LocalSql, principal: model.Principal = local_sql.ROOT
    ) -> None:
        self._local = local
        self.session = sessions.Session(id=2, principal=principal, database="lake", schema="ns")

    async def rows(self, text: str) -> list[tuple[Any, ...]]:
        mine, self._local.session = self._local.session, self.session
        try:
            return await self._local.rows(text)
        finally:
            self._local.session = mine


async def code_of(local: Any, text: str) -> str:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    return caught.value.code


def files_of(local: local_sql.LocalSql, dotted: str, folder: str = "data") -> set[str]:
    prefix = "/".join(dotted.split(".")) + f"/{folder}/"
    return {each.key for each in local.lake.storage.objects.list("lake", prefix=prefix).objects}


def head(local: local_sql.LocalSql, dotted: str) -> int | None:
    return local.lake.load(local.lake.ident(dotted)).metadata.current_snapshot_id


def test_insert_overwrite_replaces_all_rows_in_one_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1), (2)")
        await local.run("insert into t values (3)")
        commits = len(local.lake.log())
        assert await local.rows("insert overwrite into t select a * 10 from t where a > 1") == [
            (2,)
        ]
        assert len(local.lake.log()) == commits + 1
        assert await local.rows("select a from t order by a") == [(20,), (30,)]
        metadata = local.lake.load(local.lake.ident("ns.t")).metadata
        summary = (metadata.snapshot(metadata.current_snapshot_id or 0) or {})["summary"]
        assert (summary["operation"], summary["total-records"]) == ("overwrite", "2")
        assert summary["deleted-records"] == "3"

        assert await local.rows("insert overwrite into t select 1 where false") == [(0,)]
        assert await local.rows("select count(*) from t") == [(0,)]
        assert await local.rows("insert overwrite into t (a) values (5)") == [(1,)]
        assert await local.rows("select a from t") == [(5,)]

    local_sql.run_local(tmp_path, work)


def test_insert_overwrite_that_fails_changes_nothing(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int not null)")
        await local.run("insert into t values (1)")
        before = (head(local, "ns.t"), files_of(local, "ns.t"))
        assert await code_of(local, "insert overwrite into t values (null)") == "100072"
        assert await local.rows("select a from t") == [(1,)]
        assert (head(local, "ns.t"), files_of(local, "ns.t")) == before

    local_sql.run_local(tmp_path, work)


def test_truncate_removes_all_rows_and_can_be_rolled_back(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1), (2)")
        await local.run("begin")
        assert await local.rows("truncate table t") == [("Statement executed successfully.",)]
        assert await local.rows("select count(*) from t") == [(0,)]
        await local.run("insert into t values (9)")
        assert await local.rows("select a from t") == [(9,)]
        await local.run("rollback")
        assert await local.rows("select count(*) from t") == [(2,)]

        await local.run("truncate ns.t")
        assert await local.rows("select count(*) from t") == [(0,)]
        await local.run("truncate t")  # it is empty already
        await local.run("truncate table if exists absent")
        assert await code_of(local, "truncate table absent") == "002003"

    local_sql.run_local(tmp_path, work)


def test_rows_that_others_add_stay_beside_an_overwrite(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        await local.run("begin")
        await local.run("insert overwrite into t values (2)")
        await other.rows("insert into t values (3)")
        assert await other.rows("select a from t order by a") == [(1,), (3,)]
        assert await local.rows("select a from t order by a") == [(2,), (3,)]  # READ COMMITTED
        await other.rows("insert into t values (4)")
        await local.run("commit")
        assert await other.rows("select a from t order by a") == [(2,), (3,), (4,)]
        lists = {name for name in files_of(local, "ns.t", "metadata") if "/snap-" in name}
        metadata = local.lake.load(local.lake.ident("ns.t")).metadata
        assert len(lists) == len(metadata.snapshot_ids)  # those of earlier bases are removed

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize(
    "text",
    [
        "insert overwrite into t select a * 10 from t",
        "insert overwrite all into t values (a * 10) select a from t",
    ],
)
def test_an_overwrite_beside_a_delete_and_an_insert_reads_again_what_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    replace_rows = transactions.Transactions.replace_rows

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1), (2)")

        async def replace_later(*arguments: Any) -> None:
            monkeypatch.setattr(transactions.Transactions, "replace_rows", replace_rows)
            other = Other(local)
            await other.rows("delete from t where a = 1")
            await other.rows("insert into t values (3)")
            await replace_rows(*arguments)

        monkeypatch.setattr(transactions.Transactions, "replace_rows", replace_later)
        assert await local.rows(text) == [(2,)]
        assert await local.rows("select a from t order by a") == [(20,), (30,)]

    local_sql.run_local(tmp_path, work)


def test_two_transactions_that_replace_the_same_rows_conflict(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local.run("create table u (a int)")
        await local.run("insert into t values (1)")
        await local.run("begin")
        await local.run("insert into u values (1)")
        await local.run("insert overwrite into t values (2)")
        await other.rows("insert overwrite into t values (3)")
        assert await code_of(local, "select * from t") == "000625"
        assert await code_of(local, "commit") == "000625"
        assert local.session.transaction is None
        assert local.session.held is None
        assert await local.rows("select a from t") == [(3,)]
        assert await local.rows("select a from u") == []  # all or none
        assert len(files_of(local, "ns.u")) == 0

    local_sql.run_local(tmp_path, work)


def test_a_truncate_beside_a_copy_removes_the_rows_of_what_it_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_rows = transactions.Transactions.replace_rows

    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n2\n")

        async def replace_later(*arguments: Any) -> None:
            monkeypatch.setattr(transactions.Transactions, "replace_rows", replace_rows)
            assert (await other.rows("copy into t"))[0][1] == "LOADED"
            await replace_rows(*arguments)

        monkeypatch.setattr(transactions.Transactions, "replace_rows", replace_later)
        await local.run("truncate table t")
        assert await local.rows("select a from t") == []
        assert (await local.rows("copy into t"))[0][1] == "LOADED"
        assert await local.rows("select a from t order by a") == [(1,), (2,)]

    local_sql.run_local(tmp_path, work)


def test_two_truncates_of_an_empty_table_have_no_conflict(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("truncate table t")
        await other.rows("truncate table t")
        assert await local.rows("select a from t") == []
        await local.run("insert into t values (1)")
        await local.run("commit")
        assert await other.rows("select a from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("expires", [False, True])
def test_a_transaction_that_truncates_conflicts_with_a_copy_and_not_with_an_insert(
    tmp_path: Path, expires: bool
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local_sql.put_file(local, "@%t", "a.csv", b"1\n")
        await local.run("begin")
        await local.run("truncate table t")
        await other.rows("insert into t values (7)")
        await local.run("commit")
        assert await local.rows("select a from t") == [(7,)]

        await local.run("begin")
        await local.run("truncate table t")
        await other.rows("copy into t")
        copied = head(local, "ns.t")
        await other.rows("insert into t values (8)")
        if expires:
            removal = {"action": "remove-snapshots", "snapshot-ids": [copied]}
            ident = local.lake.ident("ns.t")
            await local.lake.tables.commit(ident, [], [removal], by="test")
        assert await code_of(local, "commit") == "000625"
        assert (await other.rows("copy into t"))[0][0].startswith("Copy executed with 0 files")
        assert await local.rows("select a from t order by a") == [(1,), (7,), (8,)]

    local_sql.run_local(tmp_path, work)


UPSERT = "merge into t using (select 1 a) s on t.a = s.a when not matched then insert values (s.a)"


def test_a_merge_inserts_no_row_that_others_have_added_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local.run("begin")
        assert await local.rows(UPSERT) == [(1,)]
        assert await other.rows(UPSERT) == [(1,)]
        assert await code_of(local, "commit") == "000625"
        assert await local.rows("select a from t") == [(1,)]

        await local.run("truncate t")
        keep = local.transactions.keep
        first = [True]

        async def overtaken(*arguments: Any) -> None:
            if first:
                first.clear()
                await other.rows("insert into t values (1)")
            await keep(*arguments)

        monkeypatch.setattr(local.transactions, "keep", overtaken)
        assert await local.rows(UPSERT) == [(0,)]  # it ran again, and found the row
        assert await local.rows("select a from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_a_session_record_of_an_earlier_release_tells_whether_its_rows_are_committed(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)", query_id="done")
        for query_id, code in (("done", ""), ("lost", "000625")):
            held = sessions.Held(receipt_id="", statements=((query_id, ("lake", "ns", "t")),))
            local.session.transaction_lost, local.session.held = True, held
            if code:
                assert await code_of(local, "commit") == code
            else:
                await local.run("commit")

    local_sql.run_local(tmp_path, work)


def test_a_commit_conflicts_with_other_columns_or_another_table_of_the_name(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        for change, code in (("drop table t", "002003"), ("recreated", "002003")):
            await local.run("create table t (a int)")
            await local.run("begin")
            await local.run("insert into t values (1)")
            await other.rows("drop table t")
            if change == "recreated":
                await other.rows("create table t (a int)")
                assert await local.rows("select * from t") == []
                assert await code_of(local, "insert into t values (2)") == "000625"
            assert await code_of(local, "commit") == code
            if change == "recreated":
                assert await local.rows("select * from t") == []

        ident = local.lake.ident("ns.t")
        await local.run("begin")
        await local.run("insert into t values (1)")
        schema = local.lake.load(ident).metadata.current_schema()
        field = {"id": 2, "name": "b", "type": "int", "required": False}
        wider = {**schema, "fields": [*schema["fields"], field]}
        await local.lake.tables.commit(
            ident,
            [],
            [
                {
                    "action": "add-schema",
                    "schema": wider,
                },
                {"action": "set-current-schema", "schema-id": -1},
            ],
            by="x",
        )
        assert await code_of(local, "commit") == "000625"
        assert await local.rows("select * from t") == []

    local_sql.run_local(tmp_path, work)


def test_rights_are_judged_again_at_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        allowed = {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"}
        other = Other(local, local_sql.user("u", [allowed]))
        await other.rows("begin")
        await other.rows("insert into t values (1)")
        other.session.principal = local_sql.user("u", [])
        with pytest.raises(errors.SqlError):
            await other.rows("commit")
        assert await local.rows("select count(*) from t") == [(0,)]
        assert files_of(local, "ns.t") == set()

    local_sql.run_local(tmp_path, work)


def test_time_travel_and_other_sessions_do_not_see_the_changes(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        await local.run("begin")
        await local.run("insert into t values (2)")
        assert await local.rows("select count(*) from t at(offset => 0)") == [(1,)]
        assert await local.rows("select count(*) from t where a > 1") == [(1,)]
        ((plan,),) = await local.rows("explain using text select * from t where a = 2")
        assert ", 1 of 2 files" in plan
        assert await other.rows("select count(*) from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


def test_a_transaction_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("create table u (a int)")
        for name, value in (
            ("TRANSACTION_STATEMENTS_MAX", 1),
            ("TRANSACTION_TABLES_MAX", 1),
            ("TRANSACTION_FILES_MAX", 1),
            ("TRANSACTION_BYTES_MAX", 0),
        ):
            with monkeypatch.context() as patched:
                await local.run("begin")
                await local.run("insert into t values (1)")
                patched.setattr(limits, name, value or local.session.transaction.size_bytes)
                assert await code_of(local, "insert into u values (1)") == "000002", name
                assert await local.rows("select a from t") == [(1,)]
                assert files_of(local, "ns.u") == set()
                await local.run("rollback")

    local_sql.run_local(tmp_path, work)


def test_a_rollback_that_is_cancelled_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        await local.run("insert into t values (2)")
        assert await local.rows("select count(*) from t") == [(2,)]
        assert len(files_of(local, "ns.t")) == 2
        begun, gate = asyncio.Event(), asyncio.Event()
        staging = local.transactions._staging
        discard = staging.discard

        async def slow(*arguments: Any, **named: Any) -> None:
            begun.set()
            await gate.wait()
            await discard(*arguments, **named)

        monkeypatch.setattr(staging, "discard", slow)
        rollback = asyncio.create_task(local.run("rollback"))
        await begun.wait()
        rollback.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rollback
        gate.set()
        await local.transactions.stop()
        assert files_of(local, "ns.t") == set()
        assert await local.rows("select count(*), current_transaction() from t") == [(0, None)]

    local_sql.run_local(tmp_path, work)


def test_current_and_last_transaction_show_ids(tmp_path: Path) -> None:
    ids = "select current_transaction(), last_transaction()"

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        assert await local.rows(ids) == [(None, None)]
        await local.run("begin")
        ((first, _),) = await local.rows(ids)
        assert first.isdecimal()
        await local.run("begin")  # in an open transaction: it goes on
        assert await local.rows(ids) == [(first, None)]
        await local.run("rollback")
        assert await local.rows(ids) == [(None, first)]
        await local.run("insert into t values (1)")
        ((none, last),) = await local.rows(ids)
        assert (none, last != first) == (None, True)
        await local.run("alter session set autocommit = false")
        await local.run("insert into t values (2)")
        ((second, _),) = await local.rows(ids)
        await local.run("commit")
        assert await local.rows(ids) == [(None, second)]

    local_sql.run_local(tmp_path, work)


def test_a_repeated_statement_of_an_open_transaction_runs_once(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("begin")
        for _ in range(2):
            answer = await local.run("insert into t values (1), (2)", query_id="q-1")
            assert answer.rows == ((2,),)
        for _ in range(2):
            await local.run("truncate t", query_id="q-2")
        await local.run("insert into t values (3)")
        await local.run("commit")
        await local.run("truncate t", query_id="q-2")
        assert await local.rows("select a from t") == [(3,)]

    local_sql.run_local(tmp_path, work)


def test_a_commit_of_unknown_outcome_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_many = tables.Tables.commit_many

    async def work(local: local_sql.LocalSql) -> None:
        async def commit(*arguments: Any, **named: Any) -> Any:
            await commit_many(*arguments, **named)
            raise catalog_errors.CommitStateUnknown("the disk went away")

        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        with monkeypatch.context() as patched:
            patched.setattr(tables.Tables, "commit_many", commit)
            assert await code_of(local, "commit") == "000625"
        assert await local.rows("select a from t") == [(1,)]

    local_sql.run_local(tmp_path, work)


CANCELLED_TWICE = {
    "update t set a = 2": [(2,)],
    "insert into t values (2)": [(1,), (2,)],
    "create or replace table t as select 3 a": [(3,)],
    "create or replace table t clone s": [(4,)],
    "alter table t add column b int default 5": [(1, 5)],
}


@pytest.mark.parametrize("text", CANCELLED_TWICE)
def test_a_statement_that_is_cancelled_twice_while_it_commits_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The statement's time may be over when its client cancels it too."""
    started, may_go_on = asyncio.Event(), asyncio.Event()

    def delayed(commit: Any) -> Any:
        async def delayed_commit(*arguments: Any, **named: Any) -> Any:
            started.set()
            await may_go_on.wait()
            return await commit(*arguments, **named)

        return delayed_commit

    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("insert into t values (1)")
        await local.run("create table s as select 4 a")
        with monkeypatch.context() as patched:
            for name in ("commit", "commit_many"):
                patched.setattr(tables.Tables, name, delayed(getattr(tables.Tables, name)))
            running = asyncio.create_task(local.rows(text))
            await started.wait()
            for _ in range(3):
                running.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            may_go_on.set()
            await running
        assert await local.rows("select * from t order by a") == CANCELLED_TWICE[text]

    local_sql.run_local(tmp_path, work)


def test_a_statement_that_is_cancelled_while_it_cleans_up_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its change of the third table fails; the first two are taken back although the client and
    the statement's time cancel it meanwhile."""

    async def work(local: local_sql.LocalSql) -> None:
        for name in ("t", "u", "w"):
            await local.run(f"create table {name} (a int)")
        await local.run("begin")
        staging = local.transactions._staging
        add, take_back = staging.add, staging.take_back
        begun, gate = asyncio.Event(), asyncio.Event()

        async def failing(pending: Any, *arguments: Any, **named: Any) -> Any:
            if pending.ident.name == "w":
                raise metadata_errors.RequirementFailed("another commit came first")
            return await add(pending, *arguments, **named)

        async def slow(*arguments: Any) -> None:
            begun.set()
            await gate.wait()
            await take_back(*arguments)

        monkeypatch.setattr(staging, "add", failing)
        monkeypatch.setattr(staging, "take_back", slow)
        several = "insert all into t values (a) into u values (a) into w values (a) select 1 as a"
        statement = asyncio.create_task(local.run(several))
        await begun.wait()
        for _ in range(3):
            statement.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(statement, return_exceptions=True)
        for name in ("t", "u", "w"):
            assert files_of(local, f"ns.{name}") == set(), name
            assert not any("snap-" in each for each in files_of(local, f"ns.{name}", "metadata"))
        await local.run("rollback")

    local_sql.run_local(tmp_path, work)


def test_the_end_of_a_session_removes_the_files_of_its_transaction(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        assert len(files_of(local, "ns.t")) == 1
        local.transactions.abandon(local.session.transaction)
        local.session.transaction = None
        await local.transactions.stop()
        assert files_of(local, "ns.t") == set()
        assert not {name for name in files_of(local, "ns.t", "metadata") if ".avro" in name}

    local_sql.run_local(tmp_path, work)


def test_the_sweep_frees_the_files_of_a_transaction_only_after_its_end(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        lake = local.lake

        async def sweep() -> None:
            (report,) = await sweeps.sweep_of(lake).sweep(["lake"])
            assert report.state == "done", report.error

        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        await local.run("insert into t values (2)")
        held = files_of(local, "ns.t")
        for _ in range(2):
            sweeps.pass_days(lake, 30)
            await sweep()
        assert files_of(local, "ns.t") == held
        assert await local.rows("select a from t order by a") == [(1,), (2,)]
        await local.run("commit")
        sweeps.pass_days(lake, 30)
        await sweep()
        assert await local.rows("select a from t order by a") == [(1,), (2,)]

        await local.run("begin")
        await local.run("insert into t values (3)")
        lake.store.holds = holds.Holds()  # as after a restart
        for _ in range(2):
            sweeps.pass_days(lake, 30)
            await sweep()
        assert files_of(local, "ns.t") == held

    local_sql.run_local(tmp_path, work)


def test_a_statement_whose_transaction_ends_while_it_runs_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table t (a int)")
        await local.run("begin")
        await local.run("insert into t values (1)")
        reached, may = asyncio.Event(), asyncio.Event()
        stage = local.transactions._writes.stage

        async def wait(*arguments: Any, **named: Any) -> Any:
            staged = await stage(*arguments, **named)
            reached.set()
            await may.wait()
            return staged

        monkeypatch.setattr(local.transactions._writes, "stage", wait)
        running = asyncio.ensure_future(local.rows("insert into t values (2)"))
        await reached.wait()
        await local.run("rollback")
        may.set()
        with pytest.raises(errors.SqlError) as caught:
            await running
        assert caught.value.code == "000625"
        assert await local.rows("select count(*) from t") == [(0,)]
        assert files_of(local, "ns.t") == set()

    local_sql.run_local(tmp_path, work)


def test_commit_changes_tables_of_two_databases_in_one_index_transaction(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database pond")
        await local.run("create schema pond.ns")
        await local.run("use schema lake.ns")
        await local.run("create table t (a int)")
        await local.run("create table pond.ns.u (a int)")
        logs = len(local.lake.log()), len(local.lake.log("pond"))
        disk = local.lake.storage.disk
        transact, transacted = disk.transact, []

        def counted(commit: Any) -> None:
            transacted.append(commit)
            transact(commit)

        disk.transact = counted  # type: ignore[method-assign]
        await local.run("begin")
        await local.run("insert into t values (1)")
        await local.run("insert into pond.ns.u select a + 1 from t")
        assert await Other(local).rows("select count(*) from pond.ns.u") == [(0,)]
        transacted.clear()
        await local.run("commit")
        assert len(transacted) == 1
        assert (len(local.lake.log()), len(local.lake.log("pond"))) == (logs[0] + 1, logs[1] + 1)
        assert await Other(local).rows("select t.a from t join pond.ns.u on t.a + 1 = u.a") == [
            (1,)
        ]

        await local.run("begin")
        await local.run("insert into t values (5)")
        await local.run("insert into pond.ns.u values (6)")
        await Other(local).rows("alter table pond.ns.u add column b int")
        assert await code_of(local, "commit") == "000625"
        assert await local.rows("select a from t") == [(1,)]
        assert await local.rows("select a from pond.ns.u") == [(2,)]

        await local.run("insert all into t values (n) into pond.ns.u (a) values (n) select 7 as n")
        assert await local.rows("select t.a from t join pond.ns.u on t.a = u.a") == [(7,)]

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("lost_first", [False, True])
def test_commit_after_one_of_its_databases_was_dropped_leaves_no_file(
    tmp_path: Path, lost_first: bool
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create database pond")
        await local.run("create schema pond.ns")
        await local.run("use schema lake.ns")
        await local.run("create table t (a int)")
        await local.run("create table pond.ns.u (a int)")
        tables_in_order = ["pond.ns.u", "t"] if lost_first else ["t", "pond.ns.u"]
        await local.run("begin")
        for table in tables_in_order:
            await local.run(f"insert into {table} values (1)")
        await Other(local).rows("drop database pond cascade")
        assert await code_of(local, "commit") == "002003"
        assert files_of(local, "ns.t") == set()
        assert len(files_of(local, "ns.t", "metadata")) == 1
        assert await local.rows("select a from t") == []

    local_sql.run_local(tmp_path, work)


# Columns that change while a statement of its own commit runs


@pytest.mark.parametrize(
    ("statement", "change", "outcome"),
    [
        ("insert into t (a) values (1)", "alter table t drop column y", [(0, 5), (1, 5)]),
        ("insert into t select * from t", "alter table t drop column y", [(0, 5), (0, 5)]),
        ("insert into t (a, y) values (1, 2)", "alter table t drop column y", "000904"),
        ("insert into t values (1, 2, 3)", "alter table t drop column y", "002020"),
        (
            "insert all into t (a) values (k) select 1 as k",
            "alter table t drop column y",
            [(0, 5), (1, 5)],
        ),
        ("copy into t (a, x) from @s/two.csv", "alter table t drop column y", [(0, 5), (1, 2)]),
        ("insert into t (a, x) values (1, null)", "alter table t alter x set not null", "100072"),
        (
            "insert into t (a) values (1)",
            "create or replace table t (x int default 9, a int)",
            [(9, 1)],
        ),
    ],
)
def test_rows_are_made_again_where_a_column_has_changed_meanwhile(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    change: str,
    outcome: str | list[tuple[Any, ...]],
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        await local.rows("create table t (a int, y int, x int default 5)")
        await local.rows("insert into t (a) values (0)")
        await local.rows("create stage s")
        if "copy" in statement:
            await local.rows("copy into @s/two.csv from (select 1, 2) single = true")
        before = await local.rows("select a, x from t")
        stage, waiting = writes.Writes.stage, [change]

        async def changing(self: Any, *arguments: Any, **named: Any) -> Any:
            staged = await stage(self, *arguments, **named)
            if waiting:
                await other.rows(waiting.pop())
            return staged

        monkeypatch.setattr(writes.Writes, "stage", changing)
        if isinstance(outcome, str):
            with pytest.raises(errors.SqlError) as caught:
                await local.rows(statement)
            assert caught.value.code == outcome
            assert await local.rows("select a, x from t") == before
        else:
            await local.rows(statement)
            assert await local.rows("select * from t order by 1, 2") == outcome
        assert waiting == []

    local_sql.run_local(tmp_path, work)


def test_rows_for_several_tables_are_made_again_where_a_column_has_changed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        other = Other(local)
        for name in ("t", "u"):
            await local.rows(f"create table {name} (a int, y int)")
        stage, waiting = writes.Writes.stage, ["alter table u drop column y"]

        async def changing(self: Any, *arguments: Any, **named: Any) -> Any:
            staged = await stage(self, *arguments, **named)
            if waiting:
                await other.rows(waiting.pop())
            return staged

        monkeypatch.setattr(writes.Writes, "stage", changing)
        await local.rows("insert all into t (a) values (k) into u (a) values (k) select 1 as k")
        assert await local.rows("select * from t") == [(1, None)]
        assert await local.rows("select * from u") == [(1,)]
        assert [len(files_of(local, f"ns.{name}")) for name in ("t", "u")] == [1, 1]

        await local.rows("begin")
        await local.rows("insert all into t (a) values (k) into u (a) values (k) select 2 as k")
        await other.rows("alter table t drop column y")
        assert await code_of(local, "commit") == "000625"
        assert await local.rows("select * from t union all select * from u") == [(1,), (1,)]

    local_sql.run_local(tmp_path, work)
