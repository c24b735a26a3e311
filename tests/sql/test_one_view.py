"""A statement sees every commit whole or not at all, and DROP SCHEMA is one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from catalog import manifest_encoding, manifests, tables
from catalog.commits import TableChange
from sql import bindings, errors, places
from tests.kit import examples, lakes, local_sql, manifestfiles

STEPS = 25


async def stage_row(local: local_sql.LocalSql, dotted: str, step: int) -> TableChange:
    """Return the change that makes one row with the number step all that a table holds."""
    loaded = local.lake.load(local.lake.ident(dotted))
    metadata = loaded.metadata
    data_file = (await manifestfiles.live_files(local.scans, local.reader(f"{dotted}_{step}")))[0]
    entry = manifests.ManifestEntry(
        status=manifests.Status.ADDED,
        snapshot_id=step,
        sequence_number=None,
        file_sequence_number=None,
        data_file=data_file,
    )
    encoded, manifest = manifest_encoding.encode_manifest(
        [entry],
        path=f"{metadata.location}/metadata/{step}-m0.avro",
        schema=metadata.current_schema(),
        spec=metadata.default_spec(),
        format_version=2,
        content=manifests.ManifestContent.DATA,
        snapshot_id=step,
        sync=bytes(16),
    )
    listed, _ = manifest_encoding.encode_manifest_list(
        [manifest],
        format_version=2,
        snapshot_id=step,
        parent_snapshot_id=None,
        sequence_number=step,
        first_row_id=None,
        sync=bytes(16),
    )
    uri = f"{metadata.location}/metadata/snap-{step}.avro"
    for name, body in ((manifest.manifest_path, encoded), (uri, listed)):
        await local.files.write(name, body, table_bucket="lake", owner=lakes.ACCOUNT)
    snapshot: dict[str, Any] = {
        "snapshot-id": step,
        "sequence-number": step,
        "timestamp-ms": lakes.NOW_MS,
        "manifest-list": uri,
        "schema-id": 0,
        "summary": {"operation": "overwrite", "total-records": str(step)},
    }
    return TableChange(
        ident=loaded.ident,
        requirements=[],
        updates=[
            {"action": "add-snapshot", "snapshot": snapshot},
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": step,
            },
        ],
    )


async def prepare(local: local_sql.LocalSql) -> list[list[TableChange]]:
    """Return commits that each put the same number into both tables; the first one is done."""
    for name in ("a", "b"):
        await local.run(f"create table {name} (n int)")
        for step in range(1, STEPS + 1):
            await local.run(f"create table {name}_{step} as select {step} as n")
    steps = [
        [await stage_row(local, f"ns.{name}", step) for name in ("a", "b")]
        for step in range(1, STEPS + 1)
    ]
    await local.lake.tables.commit_many(steps[0], by=lakes.BY)
    return steps[1:]


JOINS = [
    "select a.n, b.n from a, b",
    "select a.n + 0, b.n + 0 from a, b",
    "select (select max(n) from a), (select max(n) from b)",
    "select max(iff(table_name = 'A', row_count, 0)), max(iff(table_name = 'B', row_count, 0))"
    " from information_schema.tables where table_name in ('A', 'B')",
]


@pytest.mark.parametrize("text", JOINS)
def test_a_commit_between_the_loads_of_two_tables_is_not_seen(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        steps = await prepare(local)
        fetch = tables.Tables.fetch_at

        async def fetch_and_commit(*arguments: Any) -> Any:
            loaded = await fetch(*arguments)
            if steps:
                await local.lake.tables.commit_many(steps.pop(0), by=lakes.BY)
            return loaded

        monkeypatch.setattr(tables.Tables, "fetch_at", fetch_and_commit)
        for _ in range(3):
            ((left, right),) = await local.rows(text)
            assert left == right
        assert len(steps) < STEPS - 3

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("text", examples.further(JOINS, JOINS[0], JOINS[-1]))
def test_tables_of_one_query_never_show_half_of_a_commit(tmp_path: Path, text: str) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        steps = await prepare(local)
        seen: set[int] = set()
        writing = True
        answered = asyncio.Event()

        async def read() -> None:
            while writing:
                ((left, right),) = await local.rows(text)
                assert left == right
                seen.add(int(left))
                answered.set()

        async def write() -> None:
            nonlocal writing
            try:
                for number, step in enumerate(steps, start=1):
                    await local.lake.tables.commit_many(step, by=lakes.BY)
                    if number % 4 == 0:  # however slow the readers are, they see some of it
                        answered.clear()
                        await answered.wait()
            finally:
                writing = False

        await asyncio.gather(write(), *(read() for _ in range(3)))
        assert len(seen) > 2  # readers and the writer did run side by side

    local_sql.run_local(tmp_path, work)


def test_drop_schema_is_one_commit(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s")
        for number in range(3):
            await local.run(f"create table s.t{number} (id int)")
        before = local.lake.log()
        await local.run("drop schema s")
        (commit,) = [each for each in local.lake.log() if each not in before]
        assert sorted(op.name for op in commit.record.ops) == ["s", "t0", "t1", "t2"]
        assert all(op.after is None for op in commit.record.ops)
        assert not local.lake.namespaces.exists("lake", ("s",))
        assert local.lake.broken_chain() is None

    local_sql.run_local(tmp_path, work)


def test_drop_schema_drops_nothing_if_one_table_may_not_go(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create schema s")
        for number in range(3):
            await local.run(f"create table s.t{number} (id int)")
        before = local.lake.log()
        local.session.principal = local_sql.user(
            "half",
            [
                {"Effect": "Allow", "Action": "s3tables:*", "Resource": "*"},
                {
                    "Effect": "Deny",
                    "Action": "s3tables:*",
                    "Resource": local_sql.table_arn(local, "s.t1"),
                },
            ],
        )
        for text in ("drop schema lake.s", "drop schema if exists lake.s"):
            with pytest.raises(errors.SqlError) as caught:
                await local.run(text)
            assert caught.value.code == "003001"
        assert local.lake.log() == before

    local_sql.run_local(tmp_path, work)


def test_drop_schema_takes_along_a_table_that_comes_meanwhile_or_leaves_all(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        for number in range(10):
            await local.run("create schema s")
            await local.run("create table s.t0 (id int)")

            async def create(name: str) -> bool:
                try:
                    await local.lake.tables.create(
                        local.lake.ident(f"s.{name}"), schema=lakes.SCHEMA, by=lakes.BY
                    )
                except Exception:  # noqa: BLE001 - the schema went first
                    return False
                return True

            await asyncio.gather(
                local.run("drop schema lake.s"), *(create(f"n{n}") for n in range(4))
            )
            assert not local.lake.namespaces.exists("lake", ("s",)), number
        assert local.lake.broken_chain() is None

    local_sql.run_local(tmp_path, work)


def second_column(local: local_sql.LocalSql, dotted: str) -> TableChange:
    """Return the change that gives a table of one column a second one, named m."""
    loaded = local.lake.load(local.lake.ident(dotted))
    schema = loaded.metadata.current_schema()
    field = {"id": loaded.metadata.last_column_id + 1, "name": "m", "required": False}
    fields = [*schema["fields"], {**field, "type": "long"}]
    return TableChange(
        ident=loaded.ident,
        requirements=[],
        updates=[
            {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
            {"action": "set-current-schema", "schema-id": -1},
        ],
    )


def test_an_insert_sees_its_target_and_its_source_in_one_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table a (n int)")
        await local.run("create table b as select 7 as n")
        fetch = tables.Tables.fetch_at
        widened = []

        async def fetch_and_widen(self: tables.Tables, *arguments: Any) -> Any:
            loaded = await fetch(self, *arguments)
            if not widened:
                widened.append(True)
                changes = [second_column(local, "ns.a"), second_column(local, "ns.b")]
                await local.lake.tables.commit_many(changes, by=lakes.BY)
            return loaded

        monkeypatch.setattr(tables.Tables, "fetch_at", fetch_and_widen)
        # Both have one column, or both have two; the statement began when both had one.
        await local.run("insert into a select * from b")
        assert widened
        assert await local.rows("select * from a") == [(7, None)]

    local_sql.run_local(tmp_path, work)


def test_inserts_beside_commits_that_widen_both_tables_never_see_half_of_one(
    tmp_path: Path,
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        pairs = 12
        for number in range(pairs):
            await local.run(f"create table a{number} (n int)")
            await local.run(f"create table b{number} as select {number} as n")

        async def widen(number: int) -> None:
            for _ in range(number % 5):
                await asyncio.sleep(0)
            changes = [second_column(local, f"ns.{name}{number}") for name in "ab"]
            await local.lake.tables.commit_many(changes, by=lakes.BY)

        for number in range(pairs):
            text = f"insert into a{number} select * from b{number}"
            await asyncio.gather(local.run(text), widen(number))
            assert await local.rows(f"select * from a{number}") == [(number, None)]

    local_sql.run_local(tmp_path, work)


def test_a_repeated_insert_is_answered_though_its_source_is_gone(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table a (n int)")
        await local.run("create table b as select 7 as n")
        text = "insert into a select n from b where n > ?"
        bound = bindings.parse({"1": {"type": "FIXED", "value": "1"}})
        first = await local.run(text, bindings=bound)
        repeated_id = local.last_id
        await local.run("drop table b")
        again = await local.run(text, bindings=bound, query_id=repeated_id)
        assert again.stats == first.stats
        assert again.bind_count == first.bind_count == 1
        assert await local.rows("select n from a") == [(7,)]

    local_sql.run_local(tmp_path, work)


def test_a_statement_that_writes_opens_one_view_for_all_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await local.run("create table b as select 7 as n")
        opened = places.Places.view
        views = []

        @contextmanager
        def counted(
            self: places.Places, principal: Any, **more: Any
        ) -> Iterator[places.CatalogView]:
            views.append(principal)
            with opened(self, principal, **more) as view:
                yield view

        monkeypatch.setattr(places.Places, "view", counted)
        await local.run("create table if not exists a as select n from b")
        assert len(views) == 1
        await local.run("insert into a select n from b")
        assert len(views) == 2

    local_sql.run_local(tmp_path, work)
