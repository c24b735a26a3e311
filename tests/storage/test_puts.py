"""Plans of writes: bodies that a write-once key takes."""

from __future__ import annotations

import hashlib

import pytest

from storage import errors, puts, records
from storage.model import InlineBody
from tests.kit import folders

BEFORE = records.ObjectRecord(
    sequence=1,
    version_id="null",
    size_bytes=4,
    etag=hashlib.md5(b"body").hexdigest(),
    crc64nvme=5,
    modified_at_ms=1,
    segments=(),
    attributes=folders.PLAIN,
)
OF_PARTS = f"{hashlib.md5(b'parts').hexdigest()}-2"


def check(etag: str, *, size_bytes: int = 4, crc64nvme: int = 5) -> None:
    puts.check_same(
        "k",
        BEFORE,
        size_bytes=size_bytes,
        crc64nvme=crc64nvme,
        etag=etag,
        part_sizes_bytes=(2, 2) if etag == OF_PARTS else (),
        body=InlineBody(data=b"body"),
        equal=None,
    )


def test_the_same_md5_proves_equal_bytes_and_another_one_a_difference() -> None:
    check(BEFORE.etag)
    with pytest.raises(errors.ContentDiffers):
        check(hashlib.md5(b"ydob").hexdigest())


@pytest.mark.parametrize("differing", [{"size_bytes": 5}, {"crc64nvme": 6}])
def test_another_length_or_crc_is_a_difference_without_a_look_at_the_bytes(
    differing: dict[str, int],
) -> None:
    with pytest.raises(puts.Unproven):
        check(OF_PARTS)  # a digest of digests proves nothing about that of a whole
    with pytest.raises(errors.ContentDiffers):
        check(OF_PARTS, **differing)
