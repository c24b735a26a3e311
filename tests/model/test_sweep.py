"""The sweep beside a plain set of what is retained: nothing of it goes, and all else does in time.

Tables share files, have statistics and deletion vectors, are renamed, expired, dropped with and
without purge and with their namespace, unregistered, registered again, under free names and over
other tables, while clients of S3 delete files, time passes and sweeps run. The states that a user
may still ask for are remembered here, not read from the log.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from catalog import errors
from catalog.commits import LoadedTable
from catalog.manifests import Content, DataFile
from storage import model
from tests.kit import datafiles, lakes, manifestfiles, sweeps, tablefiles

NAME = st.sampled_from(["a", "b", "c"])


class Sweeping(RuleBasedStateMachine):
    """live, left: the newest state of each table that is there, and of those that were dropped or
    unregistered: (state, when its files may go; None is never)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stack = contextlib.ExitStack()
        self.lake = self.stack.enter_context(lakes.opened(self.folder / "d", clock=lakes.Clock()))
        self.bench = datafiles.bench(self.lake)
        self.sweep = sweeps.sweep_of(self.lake)
        self.live: dict[str, LoadedTable] = {}
        self.left: list[tuple[LoadedTable, int | None]] = []
        self.numbers = 0
        for name, version in (("a", 3), ("b", 2)):
            self.create(name, version)
            self.append(name)
        self.append("a")
        self.mark("a", is_every=True)

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    def ident(self, name: str) -> Any:
        return self.lake.ident(f"ns.{name}")

    def rows(self) -> list[dict[str, Any]]:
        self.numbers += 1
        return [{"id": self.numbers, "name": "x"}]

    @rule(name=NAME, version=st.sampled_from([2, 3]))
    def create(self, name: str, version: int) -> None:
        if name not in self.live:
            properties = {"format-version": str(version)}
            self.live[name] = self.lake.run(self.bench.create(f"ns.{name}", properties=properties))

    @rule(name=NAME)
    def append(self, name: str) -> None:
        if name in self.live:
            self.live[name] = self.lake.run(self.bench.add(self.live[name], self.rows()))

    @rule(name=NAME)
    def replace(self, name: str) -> None:
        async def work(table: LoadedTable) -> LoadedTable:
            live = await manifestfiles.live_files(self.bench.scans, self.bench.reader(table))
            return await self.bench.appends.commit_files(
                table.ident,
                [await self.bench.write(table, self.rows())],
                operation="overwrite",
                removed=live,
                based_on=table.metadata.current_snapshot_id,
                principal=lakes.ROOT,
            )

        if name in self.live:
            self.live[name] = self.lake.run(work(self.live[name]))

    @rule(name=NAME, other=NAME)
    def share(self, name: str, other: str) -> None:
        """Have one table name the files of another."""

        async def work() -> LoadedTable:
            files = await manifestfiles.live_files(
                self.bench.scans, self.bench.reader(self.live[name])
            )
            mine = await manifestfiles.live_files(
                self.bench.scans, self.bench.reader(self.live[other])
            )
            fresh = {
                each.file_path: msgspec.structs.replace(each, first_row_id=None)
                for each in files
                if each.content is Content.DATA
            }
            for each in mine:
                fresh.pop(each.file_path, None)
            if not fresh:
                return self.live[other]
            return await self.bench.appends.commit_files(
                self.live[other].ident,
                list(fresh.values()),
                operation="append",
                principal=lakes.ROOT,
            )

        if name in self.live and other in self.live and name != other:
            self.live[other] = self.lake.run(work())

    @rule(name=NAME, is_every=st.booleans())
    def mark(self, name: str, is_every: bool) -> None:
        """Mark a row of one or every data file as deleted, by the vectors of one new file.

        A vector takes the place of the one before; the others of that one's file stay in use.
        """
        if name not in self.live or self.live[name].metadata.format_version < 3:
            return

        async def work(table: LoadedTable) -> LoadedTable:
            live = await manifestfiles.live_files(self.bench.scans, self.bench.reader(table))
            data = [each for each in live if each.content is Content.DATA]
            data = data if is_every else data[:1]
            if not data:
                return table
            paths = {each.file_path for each in data}
            self.numbers += 1
            uri = f"{table.metadata.location}/data/{self.numbers:05}-deletes.puffin"
            blob = tablefiles.vector([0])
            puffin = b"PFA1" + blob * len(data)
            await self.bench.files.write(uri, puffin, table_bucket="lake", owner=lakes.ACCOUNT)
            vectors = [
                DataFile(
                    content=Content.POSITION_DELETES,
                    file_path=uri,
                    file_format="PUFFIN",
                    record_count=1,
                    file_size_in_bytes=len(puffin),
                    referenced_data_file=each.file_path,
                    content_offset=4 + number * len(blob),
                    content_size_in_bytes=len(blob),
                )
                for number, each in enumerate(data)
            ]
            return await self.bench.appends.commit_files(
                table.ident,
                vectors,
                operation="delete",
                removed=[each for each in live if each.referenced_data_file in paths],
                based_on=table.metadata.current_snapshot_id,
                principal=lakes.ROOT,
            )

        self.live[name] = self.lake.run(work(self.live[name]))

    @rule(name=NAME)
    def expire(self, name: str) -> None:
        if name not in self.live:
            return
        table = self.live[name]
        current = table.metadata.current_snapshot_id
        old = [each for each in table.metadata.snapshot_ids if each != current]
        update = {"action": "remove-snapshots", "snapshot-ids": old}
        self.live[name] = self.lake.run(
            self.lake.tables.commit(table.ident, [], [update], by=lakes.BY)
        )

    @rule(name=NAME, other=NAME)
    def rename(self, name: str, other: str) -> None:
        if name not in self.live or other in self.live:
            return

        async def work(table: LoadedTable) -> LoadedTable:
            await self.lake.tables.rename(table.ident, self.ident(other), by=lakes.BY)
            return await self.lake.tables.fetch(self.ident(other))

        self.live[other] = self.lake.run(work(self.live.pop(name)))

    @rule(name=NAME, pick=st.integers(0, 99))
    def delete_by_s3(self, name: str, pick: int) -> None:
        """Delete a file that a table needs as a client of S3 does: it is hidden, not removed."""
        if name in self.live:
            keys = sorted(self.needed(self.live[name]))
            self.lake.run(self.lake.store.tombstone("lake", keys[pick % len(keys)], by=lakes.BY))

    @rule(name=NAME, which=st.sampled_from(["statistics", "partition-statistics"]))
    def count(self, name: str, which: str) -> None:
        """Give the current snapshot of a table a statistics file; an earlier one is replaced."""
        if name not in self.live:
            return
        table = self.live[name]
        snapshot_id = table.metadata.current_snapshot_id
        if snapshot_id is None:
            return
        self.numbers += 1
        uri = f"{table.pointer.location}/metadata/{self.numbers:05}-{which}.stats"
        file = {"snapshot-id": snapshot_id, "statistics-path": uri, "file-size-in-bytes": 4}
        if which == "statistics":
            file |= {"file-footer-size-in-bytes": 4, "blob-metadata": []}

        async def work() -> LoadedTable:
            received = await self.lake.storage.blobs.store(b"PFA1", digests=frozenset({"md5"}))
            await self.lake.storage.objects.put(
                "lake",
                uri.removeprefix("s3://lake/"),
                received,
                attributes=model.ObjectAttributes(),
            )
            update = {"action": f"set-{which}", which: file}
            return await self.lake.tables.commit(table.ident, [], [update], by=lakes.BY)

        self.live[name] = self.lake.run(work())

    @rule(name=NAME, how=st.sampled_from(["drop", "purge", "unregister"]))
    def leave(self, name: str, how: str) -> None:
        if name not in self.live:
            return
        table = self.live.pop(name)
        if how == "unregister":
            self.lake.run(self.lake.tables.unregister(table.ident, by=lakes.BY))
            self.left.append((table, None))
            return
        self.lake.run(self.lake.tables.drop(table.ident, purge=how == "purge", by=lakes.BY))
        if how == "drop":
            self.left.append((table, self.lake.clock.now_ms + 30 * sweeps.DAY_MS))

    @rule()
    def drop_namespace(self) -> None:
        """Drop the namespace with all its tables, and make it again."""

        async def work() -> None:
            await self.lake.namespaces.drop_whole(
                "lake", ("ns",), check=lambda *_: None, by=lakes.BY
            )
            await self.lake.namespaces.create("lake", ("ns",), by=lakes.BY)

        self.lake.run(work())
        until_ms = self.lake.clock.now_ms + 30 * sweeps.DAY_MS
        self.left += [(table, until_ms) for table in self.live.values()]
        self.live.clear()

    @rule(name=NAME, pick=st.integers(0, 9))
    def register(self, name: str, pick: int) -> None:
        """Bring back a table that was dropped or unregistered, and is kept."""
        kept = [row for row in self.left if self.is_kept(row[1])]
        if name in self.live or not kept:
            return
        row = kept[pick % len(kept)]
        location = row[0].pointer.metadata_location
        assert location is not None
        with contextlib.suppress(errors.InvalidLocation):
            self.live[name] = self.lake.run(
                self.lake.tables.register(
                    self.ident(name), location, by=lakes.BY, permit=lakes.permit_all
                )
            )
            self.left.remove(row)

    @rule(name=NAME, pick=st.integers(0, 9))
    def register_over(self, name: str, pick: int) -> None:
        """Give a taken name the file of a table that is kept, or that stands under another name."""
        kept = [row[0] for row in self.left if self.is_kept(row[1])]
        tables = [*kept, *(self.live[each] for each in sorted(self.live) if each != name)]
        if name not in self.live or not tables:
            return
        table = tables[pick % len(tables)]
        location = table.pointer.metadata_location
        assert location is not None
        registration = self.lake.tables.register(
            self.ident(name), location, overwrite=True, by=lakes.BY, permit=lakes.permit_all
        )
        if table not in kept:
            with pytest.raises(errors.InvalidLocation):
                self.lake.run(registration)
            return
        replaced = self.live[name]
        self.live[name] = self.lake.run(registration)
        assert self.live[name].pointer.object_uuid == table.pointer.object_uuid
        self.left = [row for row in self.left if row[0] is not table]
        self.left.append((replaced, self.lake.clock.now_ms + 30 * sweeps.DAY_MS))

    @rule(name=NAME, pick=st.integers(0, 9))
    def undrop(self, name: str, pick: int) -> None:
        """Restore a dropped table, under any free name."""
        dropped = [row for row in self.left if row[1] is not None]
        if name in self.live or not dropped:
            return
        row = dropped[pick % len(dropped)]
        pointer = row[0].pointer

        async def work() -> LoadedTable:
            ident = self.ident(name)
            await self.lake.tables.undrop(
                row[0].ident, object_uuid=pointer.object_uuid, target=ident, by=lakes.BY
            )
            return await self.lake.tables.fetch(ident)

        try:
            restored = self.lake.run(work())
        except (errors.NotRestorable, errors.InvalidLocation) as error:
            # A sweep gave it up, or the location has been registered for another table.
            is_taken = isinstance(error, errors.InvalidLocation)
            assert is_taken or not self.is_kept(row[1]) or self.is_registered(pointer)
            return
        assert restored.pointer.metadata_location == pointer.metadata_location
        self.live[name] = restored
        self.left.remove(row)

    def is_registered(self, pointer: Any) -> bool:
        """Whether the same thing stands, or stood later, under a registration."""
        same = [each.pointer.object_uuid for each in self.live.values()]
        same += [row[0].pointer.object_uuid for row in self.left]
        return same.count(pointer.object_uuid) > 1 or pointer.object_uuid in same[: len(self.live)]

    @rule(days=st.sampled_from([0.5, 3.0, 8.0, 31.0]), rounds=st.integers(1, 3))
    def wait_and_sweep(self, days: float, rounds: int) -> None:
        for _ in range(rounds):
            sweeps.pass_days(self.lake, days)
            self.run_sweep()

    @rule()
    def run_sweep(self) -> None:
        sweeps.run(self.lake, sweep=self.sweep)

    def is_kept(self, until_ms: int | None) -> bool:
        return until_ms is None or self.lake.clock.now_ms < until_ms

    def needed(self, table: LoadedTable) -> set[str]:
        """Every file that a state names, found by opening it."""
        metadata = table.metadata
        assert table.pointer.metadata_location is not None
        keys = {table.pointer.metadata_location}
        keys |= {each["metadata-file"] for each in metadata.metadata_log}
        reader = self.bench.reader(table)
        for snapshot_id in metadata.snapshot_ids:
            snapshot = metadata.snapshot(snapshot_id)
            assert snapshot is not None
            keys.add(snapshot["manifest-list"])
            listed = self.lake.run(self.bench.scans.manifests_of(reader, snapshot_id))
            keys |= {each.manifest_path for each in listed}
            files = self.lake.run(
                manifestfiles.live_files(self.bench.scans, reader, snapshot_id=snapshot_id)
            )
            keys |= {each.file_path for each in files}
        for file in (*metadata.statistics, *metadata.partition_statistics):
            keys.add(file["statistics-path"])
        return {key.removeprefix("s3://lake/") for key in keys}

    def retained(self) -> set[str]:
        states = [*self.live.values(), *(row[0] for row in self.left if self.is_kept(row[1]))]
        return {key for state in states for key in self.needed(state)}

    @invariant()
    def everything_retained_is_there(self) -> None:
        assert self.retained() <= sweeps.keys_in(self.lake)

    def settle(self) -> None:
        """Let all days pass that do not count for ever; then only what is retained is there."""
        for days in (31, 8, 11):
            sweeps.pass_days(self.lake, days)
            sweeps.run(self.lake, sweep=self.sweep)
        assert self.retained() == sweeps.keys_in(self.lake)
        for table in self.live.values():
            live = manifestfiles.live_files(self.bench.scans, self.bench.reader(table))
            for file in self.lake.run(live):
                magic = b"PAR1" if file.content is Content.DATA else b"PFA1"
                assert self.bench.read(table, file.file_path).startswith(magic)


class Settling(Sweeping):
    """The same, and at the end everything unreachable and old is gone."""

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            super().teardown()


SHORT = settings(
    max_examples=4,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_sweeps_between_commits_drops_and_registrations_free_all_but_what_is_retained() -> None:
    run_state_machine_as_test(Settling, settings=SHORT)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_sweeps_between_many_changes_free_all_but_what_is_retained() -> None:
    thorough = settings(SHORT, max_examples=300, stateful_step_count=50)
    run_state_machine_as_test(Settling, settings=thorough)
