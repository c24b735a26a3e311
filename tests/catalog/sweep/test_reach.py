"""The files that metadata and URIs name, and the set of fixed size in which they are."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from catalog.metadata import errors as metadata_errors
from catalog.metadata import model
from catalog.sweep import reach

FOLDER = "s3://lake/ns/t/metadata/"


def table(snapshots: list[dict[str, Any]], **fields: Any) -> model.TableMetadata:
    return model.TableMetadata(
        format_version=2,
        table_uuid=None,
        location="s3://lake/ns/t",
        snapshots=model.Snapshots(json.dumps(snapshots).encode()),
        **fields,
    )


FULL = table(
    [
        {"snapshot-id": 1, "manifest-list": FOLDER + "snap-1.avro"},
        {"snapshot-id": 2, "manifests": [FOLDER + "m1.avro", FOLDER + "m2.avro"]},
        {"snapshot-id": 3, "manifest-list": FOLDER + "snap-3.avro", "manifests": [FOLDER + "x"]},
        {"snapshot-id": 4},
    ],
    metadata_entries=model.JsonArray(
        json.dumps([{"metadata-file": FOLDER + "v1.metadata.json", "timestamp-ms": 1}]).encode()
    ),
    statistics=({"snapshot-id": 1, "statistics-path": FOLDER + "s.puffin"},),
    partition_statistics=({"snapshot-id": 1, "statistics-path": FOLDER + "p.parquet"},),
)


def test_metadata_names_its_predecessors_statistics_lists_and_manifests() -> None:
    named = reach.reach_of(FULL)
    assert set(named.files) == {
        FOLDER + "v1.metadata.json",
        FOLDER + "s.puffin",
        FOLDER + "p.parquet",
    }
    assert named.manifest_lists == (FOLDER + "snap-1.avro", FOLDER + "snap-3.avro")
    assert named.manifests == (FOLDER + "m1.avro", FOLDER + "m2.avro")
    assert named.is_collectable


@pytest.mark.parametrize(
    "changed",
    [
        {"statistics": ({"snapshot-id": 1},)},
        {"statistics": ({"snapshot-id": 1, "statistics-path": 5},)},
        {"partition_statistics": ({"snapshot-id": 1, "statistics-path": None},)},
        {"metadata_entries": model.JsonArray(b'[{"timestamp-ms":1}]')},
        {"metadata_entries": model.JsonArray(b'[{"metadata-file":["a"]}]')},
        {"snapshots": model.Snapshots(b'[{"snapshot-id":1,"manifest-list":5}]')},
        {"snapshots": model.Snapshots(b'[{"snapshot-id":1,"manifests":"a"}]')},
    ],
)
def test_metadata_that_names_a_file_by_no_text_is_invalid(changed: dict[str, Any]) -> None:
    """The sweep keeps every file of such a table."""
    with pytest.raises(metadata_errors.InvalidMetadata):
        reach.reach_of(msgspec.structs.replace(FULL, **changed))


@pytest.mark.parametrize(
    ("value", "is_collectable"),
    [(None, True), ("true", True), ("false", False), (" FALSE ", False), ("no", True)],
)
def test_a_table_says_whether_its_files_may_go(value: str | None, is_collectable: bool) -> None:
    properties = {} if value is None else {"gc.enabled": value}
    assert reach.reach_of(table([], properties=properties)).is_collectable is is_collectable


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("ns/t/a.parquet", {"ns/t/a.parquet"}),
        ("ns/t/a b+c", {"ns/t/a b+c"}),
        ("d=%3D/a", {"d=%3D/a", "d==/a"}),
        ("a%FF", {"a%FF", "a\udcff"}),
        ("a?b", {"a?b", "a"}),
        ("a#b", {"a#b", "a"}),
        ("a?b#c", {"a?b#c", "a"}),
        ("a#b?c", {"a#b?c", "a"}),
        ("a%20b?c", {"a%20b?c", "a%20b", "a b?c", "a b"}),
        ("a//b", {"a//b", "a/b"}),
        ("a///b", {"a///b", "a/b"}),
        ("/a", {"/a", "a"}),
        ("/a//b", {"/a//b", "a/b"}),
        ("a//%20?b", {
            "a//%20?b", "a//%20", "a// ?b", "a// ", "a/%20?b", "a/%20", "a/ ?b", "a/ ",
        }),
        ("?a", {"?a"}),
        ("", set()),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3"])
def test_a_uri_means_every_key_that_a_client_may_open_for_it(
    scheme: str, path: str, keys: set[str]
) -> None:
    assert reach.targets_of(f"{scheme}://lake/{path}") == {("lake", key) for key in keys}


@pytest.mark.parametrize(
    "uri", ["ns/t/a", "/lake/ns/t/a", "s3:/lake/a", "gs://lake/a", "file:///lake/a", "s3://lake"]
)
def test_a_uri_of_no_object_means_no_key(uri: str) -> None:
    assert reach.targets_of(uri) == set()


def test_a_set_has_what_was_added_in_each_spelling_and_little_else() -> None:
    reached = reach.Reached(salt=b"s" * 16, size_bytes=64 * 1024)
    for number in range(1000):
        reached.add("lake", f"ns/t/data/{number}.parquet")
    reached.add_uri("s3://lake/ns/t/d=%3D/a")
    assert reached.count == 1002
    assert all(reached.holds("lake", f"ns/t/data/{number}.parquet") for number in range(1000))
    assert reached.holds("lake", "ns/t/d=%3D/a")
    assert reached.holds("lake", "ns/t/d==/a")
    assert not any(reached.holds("lake", f"ns/t/other/{number}") for number in range(1000))
    assert not any(reached.holds("other", f"ns/t/data/{number}.parquet") for number in range(1000))


def test_files_that_a_set_wrongly_has_are_others_with_another_salt() -> None:
    def wrongly_in(salt: bytes) -> set[str]:
        reached = reach.Reached(salt=salt, size_bytes=512)
        for number in range(500):
            reached.add("lake", f"a{number}")
        return {f"b{number}" for number in range(2000) if reached.holds("lake", f"b{number}")}

    one, two = wrongly_in(b"1" * 16), wrongly_in(b"2" * 16)
    # 4 bits of 4096 for each of 500: a share of (1 - e^(-4 * 500 / 4096))^4, 2.2 %, of 2000.
    assert all(20 <= len(each) <= 80 for each in (one, two))
    assert one != two
