"""Plans of removals: how many at once, and of rows that are still the ones that were read."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage import lookups, removals
from storage.model import Seen
from tests.kit import folders

run = folders.run


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([], []),
        ([1], ["a"]),
        ([9], ["a"]),  # more than fits goes alone
        ([1, 1, 1, 1], ["abc", "d"]),
        ([2, 2, 1, 2], ["ab", "cd"]),
        ([2, 3, 3], ["a", "b", "c"]),
        ([9, 1, 9], ["a", "b", "c"]),
        ([0, 0, 0, 0], ["abc", "d"]),
        ([4, 1], ["a", "b"]),
    ],
)
def test_portions_are_bounded_in_items_and_in_segments(
    segments: list[int], expected: list[str]
) -> None:
    items = "abcd"[: len(segments)]
    portions = removals.portions(items, segments, count_max=3, segments_max=4)
    assert list(portions) == expected


def test_an_object_that_was_removed_or_written_again_is_not_the_one_that_was_read(
    tmp_path: Path,
) -> None:
    storage = folders.open_folder(tmp_path / "data")
    run(folders.make_bucket(storage))
    bucket = storage.buckets.get("raw")
    for key in ("kept", "removed", "rewritten"):
        run(folders.put(storage, key, b"1"))
    seen = []
    with storage.index.view() as view:
        for key in ("kept", "removed", "rewritten"):
            value = lookups.find(view, bucket.bucket_id, key)
            assert value is not None
            seen.append(Seen(key=key.encode(), value=value, size_bytes=1, segments=1))
    run(storage.objects.delete("raw", "removed"))
    run(folders.put(storage, "rewritten", b"2"))
    freed = run(storage.objects.free_seen(bucket, seen, check=lambda reading: None))
    assert [each.key for each in freed] == [b"kept"]
    assert folders.get(storage, "rewritten") == b"2"
    storage.close()
