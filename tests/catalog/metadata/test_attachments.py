"""Statistics files and encryption keys: one per snapshot, one per key id."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.metadata import errors
from tests.kit import metadata as kit


def statistics(snapshot_id: int, path: str = "s.puffin") -> dict[str, Any]:
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": 10,
        "file-footer-size-in-bytes": 4,
        "blob-metadata": [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": snapshot_id,
                "sequence-number": 1,
                "fields": [1],
                "properties": {"ndv": "5"},
            }
        ],
    }


def partition_statistics(snapshot_id: int, path: str = "p.parquet") -> dict[str, Any]:
    return {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 9}


def test_set_statistics_trusts_the_files_own_snapshot_id() -> None:
    metadata = kit.apply(
        kit.table(),
        {"action": "set-statistics", "snapshot-id": 77, "statistics": statistics(1)},
    )
    assert metadata.statistics == (statistics(1),)


def test_set_statistics_replaces_those_of_the_same_snapshot() -> None:
    base = kit.apply(
        kit.table(),
        {"action": "set-statistics", "statistics": statistics(1)},
        {"action": "set-statistics", "statistics": statistics(2)},
    )
    metadata = kit.apply(base, {"action": "set-statistics", "statistics": statistics(1, "new")})
    assert metadata.statistics == (statistics(2), statistics(1, "new"))
    assert (
        kit.apply(metadata, {"action": "set-statistics", "statistics": statistics(2)}) is metadata
    )


def test_remove_statistics_of_a_snapshot_without_any_changes_nothing() -> None:
    base = kit.apply(kit.table(), {"action": "set-statistics", "statistics": statistics(1)})
    assert kit.apply(base, {"action": "remove-statistics", "snapshot-id": 2}) is base
    assert kit.apply(base, {"action": "remove-statistics", "snapshot-id": 1}).statistics == ()


def test_set_and_remove_partition_statistics() -> None:
    def put(value: dict[str, Any]) -> dict[str, Any]:
        return {"action": "set-partition-statistics", "partition-statistics": value}

    base = kit.apply(kit.table(), put(partition_statistics(1)), put(partition_statistics(2)))
    metadata = kit.apply(base, put(partition_statistics(1, "new")))
    assert metadata.partition_statistics == (
        partition_statistics(2),
        partition_statistics(1, "new"),
    )
    gone = kit.apply(metadata, {"action": "remove-partition-statistics", "snapshot-id": 2})
    assert gone.partition_statistics == (partition_statistics(1, "new"),)
    assert kit.apply(gone, {"action": "remove-partition-statistics", "snapshot-id": 2}) is gone


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-statistics"},
        {"action": "set-statistics", "statistics": {**statistics(1), "snapshot-id": None}},
        {"action": "set-statistics", "statistics": {**statistics(1), "blob-metadata": None}},
        {"action": "set-statistics", "statistics": {**statistics(1), "blob-metadata": [{}]}},
        {"action": "set-statistics", "statistics": {**statistics(1), "statistics-path": 1}},
        {"action": "remove-statistics"},
        {"action": "set-partition-statistics", "partition-statistics": {"snapshot-id": 1}},
        {"action": "remove-partition-statistics", "snapshot-id": "1"},
    ],
)
def test_malformed_statistics_are_refused(update: dict[str, Any]) -> None:
    with pytest.raises(errors.BadUpdate):
        kit.apply(kit.table(), update)


KEY = {"key-id": "k1", "encrypted-key-metadata": "a2V5", "encrypted-by-id": "kms", "properties": {}}


def test_add_encryption_key_with_a_known_id_changes_nothing() -> None:
    base = kit.apply(kit.table(version=3), {"action": "add-encryption-key", "encryption-key": KEY})
    assert base.encryption_keys == (KEY,)
    other = {**KEY, "encrypted-key-metadata": "b3RoZXI="}
    assert kit.apply(base, {"action": "add-encryption-key", "encryption-key": other}) is base


def test_remove_encryption_key_missing_changes_nothing() -> None:
    base = kit.apply(kit.table(version=3), {"action": "add-encryption-key", "encryption-key": KEY})
    assert kit.apply(base, {"action": "remove-encryption-key", "key-id": "zz"}) is base
    assert (
        kit.apply(base, {"action": "remove-encryption-key", "key-id": "k1"}).encryption_keys == ()
    )


@pytest.mark.parametrize("version", [1, 2])
def test_add_encryption_key_before_v3_is_refused(version: int) -> None:
    with pytest.raises(errors.BadUpdate, match=r"^Encryption keys are not supported until v3$"):
        kit.apply(
            kit.table(version=version), {"action": "add-encryption-key", "encryption-key": KEY}
        )


@pytest.mark.parametrize("key", [None, {}, {"key-id": "k"}, {**KEY, "properties": {"a": 1}}])
def test_add_encryption_key_malformed_is_refused(key: Any) -> None:
    with pytest.raises(errors.BadUpdate):
        kit.apply(kit.table(version=3), {"action": "add-encryption-key", "encryption-key": key})


@pytest.mark.parametrize("text", ["", "a2V5", "a2U=", "a2U", "a2V", "+/+/"])
def test_metadata_of_an_encryption_key_is_base64(text: str) -> None:
    update = {
        "action": "add-encryption-key",
        "encryption-key": {**KEY, "encrypted-key-metadata": text},
    }
    (key,) = kit.apply(kit.table(version=3), update).encryption_keys
    assert key["encrypted-key-metadata"] == text


@pytest.mark.parametrize("text", ["!!!notb64", "a2V5\n", "a2V5a", "a", "_-_-", "a2U==", "é"])
def test_metadata_of_an_encryption_key_that_is_no_base64_is_refused(text: str) -> None:
    update = {
        "action": "add-encryption-key",
        "encryption-key": {**KEY, "encrypted-key-metadata": text},
    }
    with pytest.raises(errors.BadUpdate, match="Cannot parse encrypted-key-metadata as base64: "):
        kit.apply(kit.table(version=3), update)
