"""Commits of delete files under another partition spec than the data file that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from catalog import appends, delete_specs, manifests
from catalog.commits import LoadedTable
from tests.catalog.rest import rest_server as kit
from tests.kit import datafiles, lakes

FILE_PATH = 2_147_483_546
"""The field id of `file_path`, by Iceberg's table of reserved field ids."""
FILE_OF_ROW = 2_147_483_646
"""The field id of `_file` in the same table: DuckDB 1.5 writes the bounds of paths under it."""
TENS = {"fields": [{"source-id": 1, "field-id": 1000, "name": "tens", "transform": "truncate[10]"}]}
BY_ID = {"fields": [{"source-id": 1, "field-id": 1001, "name": "id", "transform": "identity"}]}


class Place:
    """A table with a data file of each of two partition specs, and what a client commits to it."""

    def __init__(self, rest: kit.RestServer, version: int) -> None:
        self.rest = rest
        self.version = version
        self.bench = datafiles.bench(rest.lake)
        properties = {"format-version": str(version)}
        loaded = rest.run(self.bench.create(partition_spec=TENS, properties=properties))
        self.old = rest.run(self.bench.write(loaded, [{"id": 2, "name": "old"}], partition=(0,)))
        self.append(loaded, self.old)
        spec = {"action": "add-spec", "spec": {"spec-id": 1, **BY_ID}}
        answer = rest.commit("ns.t", spec, {"action": "set-default-spec", "spec-id": -1})
        assert answer.status == 200, answer.body
        loaded = self.loaded()
        self.new = rest.run(self.bench.write(loaded, [{"id": 3, "name": "new"}], partition=(3,)))
        self.append(loaded, self.new)

    def append(self, loaded: LoadedTable, file: manifests.DataFile) -> None:
        work = self.bench.appends.commit_files(
            loaded.ident, [file], operation="append", principal=lakes.ROOT
        )
        self.rest.run(work)

    def loaded(self) -> LoadedTable:
        loaded: LoadedTable = self.rest.lake.load(self.rest.lake.ident("ns.t"))
        return loaded

    def delete_file(self, spec_id: int, **more: Any) -> manifests.DataFile:
        """A delete file of one row: a deletion vector in a table of version 3."""
        location = self.loaded().metadata.location
        is_vector = self.version == 3
        if is_vector and "content" not in more:
            more = {"content_offset": 4, "content_size_in_bytes": 10, **more}
        values: dict[str, Any] = {
            "file_path": f"{location}/data/deletes-{spec_id}",
            "file_format": "PUFFIN" if is_vector else "PARQUET",
            "record_count": 1,
            "file_size_in_bytes": 20,
            "content": manifests.Content.POSITION_DELETES,
            "spec_id": spec_id,
            "partition": (0,) if spec_id == 0 else (2,),
            **more,
        }
        return manifests.DataFile(**values)

    def updates(self, *files: manifests.DataFile, operation: str = "delete") -> list[Any]:
        """The updates of a commit that adds files, as a client sends them."""
        change = appends.FileChange(operation=operation, added=files)
        work = self.bench.appends.build(self.loaded(), change, principal=lakes.ROOT)
        return appends.updates_of("main", self.rest.run(work).snapshot)

    def commit(self, *files: manifests.DataFile, operation: str = "delete") -> kit.Answer:
        return self.rest.commit("ns.t", *self.updates(*files, operation=operation))


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[kit.RestServer]:
    with kit.opened(tmp_path / "data") as opened:
        yield opened


def bounds(field_id: int, lower: str, upper: str) -> Mapping[str, Any]:
    return {
        "metrics": manifests.Metrics(
            lower_bounds={field_id: lower.encode()}, upper_bounds={field_id: upper.encode()}
        )
    }


@pytest.mark.parametrize("operation", ["delete", "overwrite"])
@pytest.mark.parametrize("naming", ["vector", "reference", "bounds", "bounds of DuckDB"])
def test_a_delete_file_of_another_spec_than_its_data_file_is_refused(
    rest: kit.RestServer, naming: str, operation: str
) -> None:
    place = Place(rest, 3 if naming == "vector" else 2)
    path = place.old.file_path
    names: Mapping[str, Mapping[str, Any]] = {
        "vector": {"referenced_data_file": path},
        "reference": {"referenced_data_file": path},
        "bounds": bounds(FILE_PATH, path, path),
        "bounds of DuckDB": bounds(FILE_OF_ROW, path, path),
    }
    before = rest.load("ns.t").json
    misplaced = place.delete_file(1, **names[naming])
    answer = place.commit(misplaced, operation=operation)
    status, error_type, message = answer.error
    assert (status, error_type) == (400, "ValidationException")
    assert message.startswith(
        f"Cannot delete rows of {path}, which has partition spec 0, by {misplaced.file_path},"
        " which has partition spec 1: "
    )
    updates = place.updates(misplaced, operation=operation)
    identifier = {"namespace": ["ns"], "name": "t"}
    change = {"identifier": identifier, "requirements": [], "updates": updates}
    transaction = rest.ask("POST", "transactions/commit", {"table-changes": [change]})
    assert transaction.error[:2] == (400, "ValidationException")
    assert rest.load("ns.t").json["metadata-location"] == before["metadata-location"]


def test_a_refused_commit_that_is_sent_again_is_refused_again(rest: kit.RestServer) -> None:
    place = Place(rest, 3)
    updates = place.updates(place.delete_file(1, referenced_data_file=place.old.file_path))
    key = {"idempotency_key": "0190a9c5-0d3f-7000-8000-000000000001"}
    first = rest.commit("ns.t", *updates, **key)
    assert first.status == 400
    assert rest.commit("ns.t", *updates, **key).json == first.json


def test_a_delete_file_of_its_data_files_spec_is_committed(rest: kit.RestServer) -> None:
    place = Place(rest, 3)
    assert (
        place.commit(place.delete_file(0, referenced_data_file=place.old.file_path)).status == 200
    )
    newer = place.delete_file(1, referenced_data_file=place.new.file_path, partition=(3,))
    assert place.commit(newer).status == 200


def test_what_may_apply_to_files_of_its_own_spec_is_committed(rest: kit.RestServer) -> None:
    place = Place(rest, 2)
    equality = place.delete_file(1, content=manifests.Content.EQUALITY_DELETES, equality_ids=(1,))
    assert place.commit(equality).status == 200
    # It may name files of its own spec too, of which the bounds say nothing.
    wide = place.delete_file(1, **bounds(FILE_PATH, place.old.file_path, place.new.file_path))
    assert place.commit(wide).status == 200
    absent = place.delete_file(1, referenced_data_file=f"{place.old.file_path}.absent.parquet")
    assert place.commit(absent).status == 200


def test_a_replacement_keeps_what_earlier_commits_misplaced(rest: kit.RestServer) -> None:
    place = Place(rest, 2)
    misplaced = place.delete_file(1, referenced_data_file=place.old.file_path)
    assert place.commit(misplaced, operation="replace").status == 200
    # A later deletion has the older delete file in its snapshot, and did not add it.
    right = place.delete_file(0, referenced_data_file=place.old.file_path)
    assert place.commit(right).status == 200


def test_a_snapshot_whose_manifests_cannot_be_read_is_committed_unchecked(
    rest: kit.RestServer,
) -> None:
    place = Place(rest, 3)
    updates = place.updates(place.delete_file(1, referenced_data_file=place.old.file_path))
    snapshot = updates[0]["snapshot"]
    location = place.loaded().metadata.location
    absent = {**snapshot, "manifest-list": f"{location}/metadata/snap-absent.avro"}
    answer = rest.commit("ns.t", {"action": "add-snapshot", "snapshot": absent})
    assert answer.status == 200, answer.body


@pytest.mark.parametrize(
    "update",
    [
        None,
        {},
        {"action": "add-snapshot"},
        {"action": "add-snapshot", "snapshot": []},
        {"action": "add-snapshot", "snapshot": {"summary": []}},
        {"action": "add-snapshot", "snapshot": {"summary": {"operation": ["delete"]}}},
        {"action": "add-snapshot", "snapshot": {"summary": {"operation": "delete"}}},
        {
            "action": "add-snapshot",
            "snapshot": {
                "snapshot-id": "1",
                "manifest-list": "s3://lake/x",
                "summary": {"operation": "delete"},
            },
        },
    ],
    ids=json.dumps,
)
def test_a_malformed_update_is_left_to_the_rules_of_metadata(update: Any) -> None:
    assert delete_specs.snapshots_to_check([update]) == []


def test_a_commit_has_a_bound_of_snapshots_that_are_read() -> None:
    snapshot = {"snapshot-id": 1, "manifest-list": "x", "summary": {"operation": "delete"}}
    update = {"action": "add-snapshot", "snapshot": snapshot}
    read = delete_specs.snapshots_to_check([update] * 1000)
    assert read == [(1, "x")] * delete_specs.SNAPSHOTS_MAX
