"""Files of other tables, named by a table's metadata: read only if GetObject is allowed.

dave may do everything but is denied whatever lies in the namespace bob. Each test makes a table
of dave's own name a file of bob's, on one of the three levels of metadata, and reads it as dave.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from catalog import manifest_encoding, manifests, summaries
from sql import errors
from tests.kit import lakes, local_sql, manifestfiles, users

Attack = Callable[[local_sql.LocalSql], Awaitable[None]]


async def prepare(local: local_sql.LocalSql) -> None:
    for name in ("bob", "dave"):
        await local.run(f"create schema {name}")
    await local.run("create table bob.secret (id int, word varchar)")
    await local.run("insert into bob.secret values (41, 'hidden'), (42, 'hidden too')")
    await local.run("create table dave.mine (id int, word varchar)")


def be(local: local_sql.LocalSql, name: str) -> None:
    statements = [dict(each) for policy in users.POLICIES[name] for each in policy["Statement"]]
    local.session.principal = local_sql.user(name, statements)


async def name_snapshot(local: local_sql.LocalSql, manifest_list: str) -> None:
    """Give dave's table a snapshot with this manifest list."""
    mine = local.lake.load(local.lake.ident("dave.mine"))
    snapshot: dict[str, Any] = {
        "snapshot-id": 7,
        "sequence-number": mine.metadata.last_sequence_number + 1,
        "timestamp-ms": lakes.NOW_MS,
        "manifest-list": manifest_list,
        "schema-id": 0,
        "summary": {"operation": "append", **dict.fromkeys(summaries.TOTALS, "2")},
    }
    await local.lake.tables.commit(
        mine.ident,
        [],
        [
            {"action": "add-snapshot", "snapshot": snapshot},
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": 7,
            },
        ],
        by=lakes.BY,
    )


async def name_list(local: local_sql.LocalSql) -> None:
    secret = local.lake.load(local.lake.ident("bob.secret"))
    snapshot = secret.metadata.current_snapshot()
    assert snapshot is not None
    await name_snapshot(local, snapshot["manifest-list"])


async def name_manifest(local: local_sql.LocalSql) -> None:
    reader = local.reader("bob.secret")
    head = reader.table.metadata.current_snapshot_id
    assert head is not None
    listed = await local.scans.manifests_of(reader, head)
    data, _ = manifest_encoding.encode_manifest_list(
        listed,
        format_version=2,
        snapshot_id=7,
        parent_snapshot_id=None,
        sequence_number=1,
        first_row_id=None,
        sync=bytes(16),
    )
    mine = local.lake.load(local.lake.ident("dave.mine"))
    uri = f"{mine.metadata.location}/metadata/snap-7-1-mine.avro"
    await local.files.write(uri, data, table_bucket="lake", owner=lakes.ACCOUNT)
    await name_snapshot(local, uri)


async def name_data_file(local: local_sql.LocalSql) -> None:
    files = await manifestfiles.live_files(local.scans, local.reader("bob.secret"))
    await local.appends.commit_files(
        local.lake.ident("dave.mine"), files, operation="append", principal=local_sql.ROOT
    )


ATTACKS = [name_list, name_manifest, name_data_file]
READS = [
    "select * from dave.mine",
    "select count(*) from dave.mine",
    "select id from dave.mine where id = 41",
    "select sum(id + 1) from dave.mine",
    "select 1 from dave.mine where id > 1000",
    "insert into dave.mine select id + 1, word from dave.mine",
]


async def refuse(local: local_sql.LocalSql, text: str) -> None:
    with pytest.raises(errors.SqlError) as caught:
        await local.rows(text)
    assert caught.value.code == "003001", text
    assert "hidden" not in caught.value.message


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_denied_tables_file_is_not_read_through_metadata_of_ones_own(
    tmp_path: Path, attack: Attack
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await attack(local)
        be(local, "dave")
        for text in READS:
            if attack is name_data_file and "1000" in text:
                continue  # the bounds are in dave's own manifest, and leave no file to open
            await refuse(local, text)

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_another_principal_has_read_is_not_answered_from_a_cache(
    tmp_path: Path, attack: Attack
) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await attack(local)
        for text in READS[:-1]:
            assert await local.rows(text) is not None  # root may read both
        assert await local.rows("select id from dave.mine order by id") == [(41,), (42,)]
        be(local, "dave")
        await refuse(local, "select * from dave.mine")
        await refuse(local, "select count(*) from dave.mine")
        await refuse(local, "select sum(id + 1) from dave.mine")

    local_sql.run_local(tmp_path, work)


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_deny_holds_after_the_owning_table_is_dropped(tmp_path: Path, attack: Attack) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await attack(local)
        await local.run("drop table bob.secret")
        be(local, "dave")
        await refuse(local, "select * from dave.mine")

    local_sql.run_local(tmp_path, work)


def test_a_denied_delete_file_is_not_applied(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await local.run("insert into dave.mine values (1, 'own')")
        (foreign,) = await manifestfiles.live_files(local.scans, local.reader("bob.secret"))
        deletes = msgspec.structs.replace(foreign, content=manifests.Content.POSITION_DELETES)
        mine = local.reader("dave.mine").table
        await local.appends.commit_files(
            mine.ident,
            [deletes],
            operation="delete",
            based_on=mine.metadata.current_snapshot_id,
            principal=local_sql.ROOT,
        )
        be(local, "dave")
        for text in ("select * from dave.mine", "select count(*) from dave.mine"):
            await refuse(local, text)

    local_sql.run_local(tmp_path, work)


def test_pruning_tells_nothing_of_a_denied_manifests_bounds(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await name_manifest(local)
        be(local, "dave")
        await refuse(local, "explain select * from dave.mine where id > 1000")
        await refuse(local, "explain select * from dave.mine where id > 0")

    local_sql.run_local(tmp_path, work)


def test_a_merge_leaves_manifests_alone_that_the_writer_may_not_read(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await name_manifest(local)
        mine = local.lake.ident("dave.mine")
        merging = {"commit.manifest.min-count-to-merge": "2"}
        await local.lake.tables.commit(
            mine, [], [{"action": "set-properties", "updates": merging}], by=lakes.BY
        )
        be(local, "dave")
        for number in range(3):
            await local.run(f"insert into dave.mine values ({number}, 'own')")

        reader = local.reader("dave.mine")
        location = reader.table.metadata.location
        head = reader.table.metadata.current_snapshot_id
        assert head is not None
        listed = await local.scans.manifests_of(reader, head)
        for manifest in listed:
            if manifest.manifest_path.startswith(location):
                for entry in await local.scans.entries_of(manifest, reader):
                    assert entry.data_file.file_path.startswith(location)
        foreign = [each for each in listed if not each.manifest_path.startswith(location)]
        assert len(foreign) == 1
        local.session.principal = local_sql.ROOT
        assert await local.one("select count(*) from dave.mine") == 5

    local_sql.run_local(tmp_path, work)


def test_files_at_an_earlier_location_of_the_table_stay_its_own(tmp_path: Path) -> None:
    async def work(local: local_sql.LocalSql) -> None:
        await prepare(local)
        await local.run("insert into dave.mine values (1, 'own')")
        moved = {"action": "set-location", "location": "s3://lake/dave/moved"}
        await local.lake.tables.commit(local.lake.ident("dave.mine"), [], [moved], by=lakes.BY)
        be(local, "dave")
        await local.run("insert into dave.mine values (2, 'own')")
        assert await local.rows("select id from dave.mine order by id") == [(1,), (2,)]

    local_sql.run_local(tmp_path, work)
