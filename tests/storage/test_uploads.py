"""Multipart uploads: parts become segments, nothing is copied, repeats are recognised."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from storage import checksums, errors
from storage.batch import Expect, Store
from storage.model import (
    AccessControlList,
    ByteRange,
    ObjectAttributes,
    ObjectInfo,
    PartInfo,
    Precondition,
    UploadInfo,
)
from storage.opening import Storage
from storage.uploads import PART_BYTES_MIN, Uploads
from tests.kit import collisions, folders

FULL = b"f" * 70_000
SMALL_PARTS = 60_000
"""What these tests take for the least size of a part, so that they move few bytes."""

run = folders.run


@pytest.fixture
def uploads(storage: Storage, clock: folders.Clock) -> Uploads:
    return Uploads(
        index=storage.index,
        blobs=storage.blobs,
        now_ms=clock,
        new_id=folders.Ids("uploads"),
        part_bytes_min=SMALL_PARTS,
    )


def create(uploads: Uploads, key: str = "k", **options: Any) -> UploadInfo:
    return run(uploads.create("raw", key, **{"attributes": folders.PLAIN, **options}))


def send(
    storage: Storage, uploads: Uploads, upload: UploadInfo, number: int, data: bytes
) -> PartInfo:
    async def receive() -> PartInfo:
        received = await storage.blobs.store(data, digests=folders.MD5)
        return await uploads.put_part("raw", upload.key, upload.upload_id, number, received)

    return run(receive())


def complete(
    uploads: Uploads, upload: UploadInfo, parts: Sequence[PartInfo], **options: Any
) -> ObjectInfo:
    named = [(part.part_number, part.etag) for part in parts]
    return run(uploads.complete("raw", upload.key, upload.upload_id, named, **options))


def count(storage: Storage, store: Store) -> int:
    with storage.index.view() as view:
        return len(list(view.scan(store, b"")))


def sweep(storage: Storage) -> None:
    while run(storage.sweep.once(row_grace_ms=-1, file_grace_ms=-1)):
        pass


@pytest.mark.parametrize("key", ["k", "k" * 1000])
@pytest.mark.parametrize("last", [b"", b"tail", FULL])
def test_complete_makes_an_object_of_the_parts_and_copies_nothing(
    storage: Storage, uploads: Uploads, tmp_path: Path, key: str, last: bytes
) -> None:
    attributes = ObjectAttributes(headers={"content-type": "a/b"}, owner="me", tags={"t": "u"})
    upload = create(uploads, key, attributes=attributes)
    bodies = {1: FULL, 7: FULL + b"7", 10_000: last}
    parts = [send(storage, uploads, upload, number, data) for number, data in bodies.items()]
    files = folders.blob_files(tmp_path / "data")
    info = complete(uploads, upload, parts)
    assert folders.blob_files(tmp_path / "data") == files
    whole = b"".join(bodies.values())
    assert storage.objects.head("raw", key) == info
    assert storage.objects.read(info) == whole
    assert info.crc64nvme == checksums.crc64nvme(whole)
    md5s = b"".join(hashlib.md5(data).digest() for data in bodies.values())
    assert info.etag == hashlib.md5(md5s).hexdigest() + "-3"
    assert info.attributes.part_sizes_bytes == tuple(len(data) for data in bodies.values())
    assert (info.attributes.headers, info.attributes.owner, info.attributes.tags) == (
        {"content-type": "a/b"}, "me", {"t": "u"},
    )  # fmt: skip
    for start, stop in ((69_999, 70_001), (0, len(whole)), (140_000, len(whole))):
        byte_range = ByteRange(start=start, stop=stop)
        assert storage.objects.read(info, byte_range) == whole[start:stop]
    assert (count(storage, Store.UPLOADS), count(storage, Store.PARTS)) == (
        0, 0,
    ), "nothing of the upload is left"  # fmt: skip
    run(storage.objects.delete("raw", key))
    sweep(storage)
    assert folders.blob_files(tmp_path / "data") == set()
    for store in (Store.BODIES, Store.BLOBS, Store.PREFIXES, Store.OBJECTS):
        assert count(storage, store) == 0


def test_a_part_sent_again_replaces_the_first(
    storage: Storage, uploads: Uploads, tmp_path: Path
) -> None:
    upload = create(uploads)
    send(storage, uploads, upload, 1, FULL)
    part = send(storage, uploads, upload, 1, FULL + b"!")
    assert uploads.list_parts("raw", "k", upload.upload_id).parts == (part,)
    info = complete(uploads, upload, [part])
    assert storage.objects.read(info) == FULL + b"!"
    sweep(storage)
    assert len(folders.blob_files(tmp_path / "data")) == 1


def test_parts_that_completion_does_not_name_are_let_go(
    storage: Storage, uploads: Uploads, tmp_path: Path
) -> None:
    upload = create(uploads)
    parts = [send(storage, uploads, upload, number, FULL) for number in (1, 2, 3)]
    info = complete(uploads, upload, [parts[1]])
    assert storage.objects.read(info) == FULL
    sweep(storage)
    assert len(folders.blob_files(tmp_path / "data")) == 1


def test_complete_repeated_word_for_word_returns_the_object(
    storage: Storage, uploads: Uploads, clock: folders.Clock
) -> None:
    upload = create(uploads)
    parts = [send(storage, uploads, upload, number, FULL) for number in (1, 2)]
    info = complete(uploads, upload, parts, precondition=Precondition(if_none_match=("*",)))
    clock.move(5000)
    again = complete(uploads, upload, parts, precondition=Precondition(if_none_match=("*",)))
    assert again == info
    with pytest.raises(errors.NoSuchUpload):
        complete(uploads, upload, parts[:1])
    run(folders.put(storage, "k", b"other"))
    with pytest.raises(errors.NoSuchUpload):
        complete(uploads, upload, parts)


def test_the_parts_of_an_upload_that_is_gone_are_no_repeat_of_another(
    storage: Storage, uploads: Uploads
) -> None:
    upload, gone = create(uploads), create(uploads)
    parts = [send(storage, uploads, each, 1, FULL) for each in (upload, gone)]
    assert parts[0].etag == parts[1].etag
    info = complete(uploads, upload, parts[:1])
    run(uploads.abort("raw", "k", gone.upload_id))
    with pytest.raises(errors.NoSuchUpload):
        complete(uploads, gone, parts[1:])
    assert storage.objects.head("raw", "k") == info


def test_of_many_completions_at_once_all_get_the_same_object(
    storage: Storage, uploads: Uploads
) -> None:
    upload = create(uploads)
    part = send(storage, uploads, upload, 1, FULL)

    async def race() -> list[ObjectInfo]:
        named = [(1, part.etag)]
        return await asyncio.gather(
            *(uploads.complete("raw", "k", upload.upload_id, named) for _ in range(8))
        )

    results = run(race())
    assert all(each == results[0] for each in results)


BAD_LISTS: list[tuple[list[tuple[int, str]], type[Exception]]] = [
    ([], errors.InvalidPart),
    ([(2, "@2"), (1, "@1")], errors.PartOutOfOrder),
    ([(1, "@1"), (1, "@1")], errors.PartOutOfOrder),
    ([(0, "@1")], errors.PartOutOfOrder),
    ([(10_001, "@1")], errors.InvalidPart),
    ([(1, "@1"), (4, "@1")], errors.InvalidPart),
    ([(1, "@2")], errors.InvalidPart),
    ([(1, "")], errors.InvalidPart),
    ([(1, "@1"), (2, "@2"), (3, "@3")], errors.PartTooSmall),
]


@pytest.mark.parametrize(("named", "error"), BAD_LISTS)
def test_a_completion_that_names_wrong_parts_changes_nothing(
    storage: Storage, uploads: Uploads, named: list[tuple[int, str]], error: type[Exception]
) -> None:
    upload = create(uploads)
    bodies = {1: FULL, 2: b"small", 3: FULL + b"3"}
    parts = {number: send(storage, uploads, upload, number, bodies[number]) for number in bodies}
    etags = {f"@{number}": part.etag for number, part in parts.items()}
    listed = [(number, etags.get(etag, etag)) for number, etag in named]
    with pytest.raises(error):
        run(uploads.complete("raw", "k", upload.upload_id, listed))
    assert len(uploads.list_parts("raw", "k", upload.upload_id).parts) == 3
    with pytest.raises(errors.NoSuchKey):
        storage.objects.head("raw", "k")


def test_the_least_size_of_a_part_is_5_mib_and_spares_the_last() -> None:
    assert PART_BYTES_MIN == 5 * 1024 * 1024


def test_complete_with_another_size_than_the_parts_have_is_refused(
    storage: Storage, uploads: Uploads
) -> None:
    upload = create(uploads)
    part = send(storage, uploads, upload, 1, FULL)
    with pytest.raises(errors.InvalidPart):
        complete(uploads, upload, [part], size_bytes=len(FULL) + 1)
    assert complete(uploads, upload, [part], size_bytes=len(FULL)).size_bytes == len(FULL)


@pytest.mark.parametrize("exists", [False, True])
def test_conditions_are_judged_at_completion(
    storage: Storage, uploads: Uploads, exists: bool
) -> None:
    upload = create(uploads)
    part = send(storage, uploads, upload, 1, FULL)
    if exists:
        run(folders.put(storage, "k", b"there"))
        with pytest.raises(errors.PreconditionFailed):
            complete(uploads, upload, [part], precondition=Precondition(if_none_match=("*",)))
        assert folders.get(storage, "k") == b"there"
        etag = storage.objects.head("raw", "k").etag
        complete(uploads, upload, [part], precondition=Precondition(if_match=(etag,)))
    else:
        with pytest.raises(errors.NoSuchKey):
            complete(uploads, upload, [part], precondition=Precondition(if_match=("*",)))
        complete(uploads, upload, [part], precondition=Precondition(if_none_match=("*",)))
    assert folders.get(storage, "k") == FULL


def test_a_write_once_key_is_completed_again_by_identical_bytes_alone(
    storage: Storage, uploads: Uploads, tmp_path: Path
) -> None:
    once = Precondition(write_once=True)
    first = run(folders.put(storage, "k", FULL + b"tail", precondition=once))
    upload = create(uploads, attributes=ObjectAttributes(headers={"content-type": "text/csv"}))
    parts = [
        send(storage, uploads, upload, number, data)
        for number, data in ((1, FULL), (2, b"tail"), (3, b"liar"))
    ]
    with pytest.raises(errors.ContentDiffers):
        complete(uploads, upload, [parts[0], parts[2]], precondition=once)
    again = complete(uploads, upload, parts[:2], precondition=once)
    assert again.body == first.body
    digests = b"".join(hashlib.md5(data).digest() for data in (FULL, b"tail"))
    assert again.etag == hashlib.md5(digests).hexdigest() + "-2"
    assert again.attributes.headers == {"content-type": "text/csv"}
    assert complete(uploads, upload, parts[:2], precondition=once) == again
    with pytest.raises(errors.NoSuchUpload):
        complete(uploads, upload, parts[:1], precondition=once)
    sweep(storage)
    assert folders.get(storage, "k") == FULL + b"tail"
    assert len(folders.blob_files(tmp_path / "data")) == 1
    assert count(storage, Store.BODIES) == 0


def test_a_completion_by_other_bytes_of_the_same_length_and_crc_is_refused(
    storage: Storage, uploads: Uploads
) -> None:
    once = Precondition(write_once=True)
    forged = collisions.other_body(FULL)

    def upload(*bodies: bytes) -> ObjectInfo:
        started = create(uploads)
        parts = [
            send(storage, uploads, started, number, body) for number, body in enumerate(bodies, 1)
        ]
        return complete(uploads, started, parts, precondition=once)

    first = upload(FULL, FULL)
    # The same parts with other bytes; other parts; the same bytes in other parts, or in one piece.
    for bodies in ((forged, FULL), (FULL, forged), (FULL + forged,), (forged + FULL,)):
        with pytest.raises(errors.ContentDiffers):
            upload(*bodies)
        assert storage.objects.head("raw", "k") == first
    with pytest.raises(errors.ContentDiffers):
        run(folders.put(storage, "k", FULL + forged, precondition=once))
    assert upload(FULL, FULL).body == first.body
    assert upload(FULL + FULL).body == first.body
    assert upload(FULL[:65_000], FULL[65_000:] + FULL).body == first.body
    assert run(folders.put(storage, "k", FULL + FULL, precondition=once)).body == first.body
    assert folders.get(storage, "k") == FULL + FULL
    sweep(storage)
    assert folders.get(storage, "k") == FULL + FULL


def raw_text(algorithm: str, data: bytes) -> str:
    return base64.b64encode(checksums.digest(data, (algorithm,))[algorithm]).decode()


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme"])
def test_a_full_object_checksum_is_that_of_the_whole(
    storage: Storage, uploads: Uploads, algorithm: str
) -> None:
    upload = create(uploads, checksum_algorithm=algorithm, checksum_type="FULL_OBJECT")
    parts = checksummed_parts(storage, uploads, upload, algorithm)
    info = complete(uploads, upload, parts)
    assert info.attributes.checksums == {algorithm: raw_text(algorithm, FULL + b"tail")}
    assert info.attributes.checksum_type == "FULL_OBJECT"


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "sha1", "sha256"])
def test_a_composite_checksum_is_that_of_the_parts_checksums(
    storage: Storage, uploads: Uploads, algorithm: str
) -> None:
    upload = create(uploads, checksum_algorithm=algorithm, checksum_type="COMPOSITE")
    parts = checksummed_parts(storage, uploads, upload, algorithm)
    info = complete(uploads, upload, parts)
    joined = b"".join(base64.b64decode(raw_text(algorithm, data)) for data in (FULL, b"tail"))
    assert info.attributes.checksums == {algorithm: raw_text(algorithm, joined) + "-2"}
    assert info.attributes.checksum_type == "COMPOSITE"


def checksummed_parts(
    storage: Storage, uploads: Uploads, upload: UploadInfo, algorithm: str
) -> list[PartInfo]:
    async def receive(number: int, data: bytes) -> PartInfo:
        received = await storage.blobs.store(data, digests=folders.MD5)
        return await uploads.put_part(
            "raw", "k", upload.upload_id, number, received,
            checksums_text={algorithm: raw_text(algorithm, data)},
        )  # fmt: skip

    return [run(receive(number, data)) for number, data in ((1, FULL), (2, b"tail"))]


def test_a_claim_about_a_parts_checksum_must_agree(storage: Storage, uploads: Uploads) -> None:
    upload = create(uploads, checksum_algorithm="crc32")
    parts = checksummed_parts(storage, uploads, upload, "crc32")
    wrong = {2: {"crc32": raw_text("crc32", b"other")}}
    with pytest.raises(errors.InvalidPart):
        complete(uploads, upload, parts, part_checksums=wrong)
    right = {2: {"crc32": raw_text("crc32", b"tail")}}
    complete(uploads, upload, parts, part_checksums=right)


@pytest.mark.parametrize("data", [b"0123456789" * 20_000, b"0123456789"])
def test_copy_part_shares_a_range_of_the_source(
    storage: Storage, uploads: Uploads, tmp_path: Path, data: bytes
) -> None:
    source = run(folders.put(storage, "source", data))
    upload = create(uploads, checksum_algorithm="sha256")

    def copy(number: int, byte_range: ByteRange | None) -> PartInfo:
        copying = uploads.copy_part("raw", "k", upload.upload_id, number, source, byte_range)
        return run(copying)

    first, second = copy(1, None), copy(2, ByteRange(start=3, stop=8))
    assert first.etag == hashlib.md5(data).hexdigest()
    assert second.etag == hashlib.md5(data[3:8]).hexdigest()
    assert second.size_bytes == 5
    assert second.checksums == {"sha256": raw_text("sha256", data[3:8])}
    run(storage.objects.delete("raw", "source"))
    sweep(storage)
    chosen = [first, second] if len(data) > SMALL_PARTS else [second]
    info = complete(uploads, upload, chosen)
    sweep(storage)
    expected = data + data[3:8] if len(data) > SMALL_PARTS else data[3:8]
    assert storage.objects.read(info) == expected
    assert info.crc64nvme == checksums.crc64nvme(expected)
    run(storage.objects.delete("raw", "k"))
    sweep(storage)
    assert folders.blob_files(tmp_path / "data") == set()
    assert (count(storage, Store.BODIES), count(storage, Store.BLOBS)) == (0, 0)


def test_copy_part_of_many_segments_stores_their_bytes_again(
    storage: Storage, clock: folders.Clock, tmp_path: Path
) -> None:
    """Parts that are copied from objects made of copies would have any number of segments."""
    uploads = Uploads(
        index=storage.index,
        blobs=storage.blobs,
        now_ms=clock,
        new_id=folders.Ids("uploads"),
        part_bytes_min=0,
    )
    contents = [bytes([65 + number]) * 30_000 for number in range(5)]

    def copied(key: str, source: ObjectInfo, byte_range: ByteRange | None) -> ObjectInfo:
        upload = create(uploads, key)
        copying = uploads.copy_part("raw", key, upload.upload_id, 1, source, byte_range)
        return complete(uploads, upload, [run(copying)])

    first = create(uploads, "source")
    sent = [send(storage, uploads, first, n, data) for n, data in enumerate(contents, 1)]
    source = complete(uploads, first, sent)
    assert len(source.body.segments) == 5
    four = copied("four", source, ByteRange(start=0, stop=120_000))
    assert four.body.segments == source.body.segments[:4]
    five = copied("five", source, None)
    assert len(five.body.segments) == 1
    assert storage.objects.read(five) == b"".join(contents)
    assert five.crc64nvme == source.crc64nvme
    cut = copied("cut", source, ByteRange(start=1, stop=149_999))
    assert storage.objects.read(cut) == b"".join(contents)[1:-1]
    for key in ("source", "four", "five", "cut"):
        run(storage.objects.delete("raw", key))
    sweep(storage)
    assert folders.blob_files(tmp_path / "data") == set()
    assert (count(storage, Store.BODIES), count(storage, Store.BLOBS)) == (0, 0)


def test_copy_part_of_many_segments_that_is_refused_leaves_no_file(
    storage: Storage, clock: folders.Clock, tmp_path: Path
) -> None:
    uploads = Uploads(
        index=storage.index,
        blobs=storage.blobs,
        now_ms=clock,
        new_id=folders.Ids("uploads"),
        part_bytes_min=0,
    )
    first = create(uploads, "source")
    sent = [send(storage, uploads, first, number, FULL) for number in range(1, 6)]
    source = complete(uploads, first, sent)
    upload = create(uploads)
    files = folders.blob_files(tmp_path / "data")
    absent = Expect(store=Store.BUCKETS, key=b"raw", value=None)
    copying = uploads.copy_part("raw", "k", upload.upload_id, 1, source, expects=(absent,))
    with pytest.raises(errors.ExpectationFailed):
        run(copying)
    assert uploads.list_parts("raw", "k", upload.upload_id).parts == ()
    assert folders.blob_files(tmp_path / "data") == files


def test_a_part_whose_expectation_fails_is_not_stored_and_its_body_is_kept(
    storage: Storage,
) -> None:
    uploads = storage.uploads
    upload = run(uploads.create("raw", "k", attributes=ObjectAttributes()))
    received = run(storage.blobs.store(b"part", digests=folders.MD5))
    absent = Expect(store=Store.BUCKETS, key=b"raw", value=None)
    with pytest.raises(errors.ExpectationFailed):
        run(uploads.put_part("raw", "k", upload.upload_id, 1, received, expects=(absent,)))
    assert uploads.list_parts("raw", "k", upload.upload_id).parts == ()
    part = run(uploads.put_part("raw", "k", upload.upload_id, 1, received))
    assert part.size_bytes == 4


@pytest.mark.parametrize("data", [FULL, b"small"])
def test_copy_part_of_what_was_overwritten_meanwhile_has_its_bytes_until_they_are_freed(
    storage: Storage, uploads: Uploads, data: bytes
) -> None:
    source = run(folders.put(storage, "source", data))
    upload = create(uploads)
    run(folders.put(storage, "source", b"new"))
    part = run(uploads.copy_part("raw", "k", upload.upload_id, 1, source))
    assert (part.etag, part.size_bytes) == (source.etag, len(data))
    sweep(storage)
    complete(uploads, upload, [part])
    assert folders.get(storage, "k") == data
    upload = create(uploads, "other")
    with pytest.raises(errors.SourceGone):
        run(uploads.copy_part("raw", "other", upload.upload_id, 1, source))
    assert uploads.list_parts("raw", "other", upload.upload_id).parts == ()


def test_abort_frees_everything(storage: Storage, uploads: Uploads, tmp_path: Path) -> None:
    upload = create(uploads, "k" * 800)
    for number, data in ((1, FULL), (2, b"small")):
        send(storage, uploads, upload, number, data)
    run(uploads.abort("raw", upload.key, upload.upload_id))
    sweep(storage)
    assert folders.blob_files(tmp_path / "data") == set()
    for store in (Store.UPLOADS, Store.PARTS, Store.BODIES, Store.BLOBS, Store.PREFIXES):
        assert count(storage, store) == 0
    with pytest.raises(errors.NoSuchUpload):
        run(uploads.abort("raw", upload.key, upload.upload_id))


def test_completion_over_a_hidden_object_shows_the_new_one(
    storage: Storage, uploads: Uploads
) -> None:
    run(folders.put(storage, "k", b"old"))
    run(storage.objects.tombstone("raw", "k", by="me"))
    assert len(folders.tombstones(storage)) == 1
    upload = create(uploads)
    complete(uploads, upload, [send(storage, uploads, upload, 1, b"new")])
    assert folders.tombstones(storage) == []
    assert [info.key for info in storage.objects.list("raw").objects] == ["k"]


@pytest.mark.parametrize("keeps_acl", [True, False])
def test_an_object_has_the_access_control_list_of_its_upload_if_it_may(
    storage: Storage, uploads: Uploads, keeps_acl: bool
) -> None:
    acl = AccessControlList(owner="c" * 64, account="", grants=())
    upload = create(uploads, attributes=ObjectAttributes(acl=acl))
    part = send(storage, uploads, upload, 1, b"x")
    complete(uploads, upload, [part], keeps_acl=keeps_acl)
    assert storage.objects.head("raw", "k").attributes.acl == (acl if keeps_acl else None)


def test_an_upload_is_not_created_in_another_bucket_of_the_same_name(
    storage: Storage, uploads: Uploads
) -> None:
    judged = storage.buckets.get("raw")
    run(storage.buckets.delete("raw"))
    run(folders.make_bucket(storage))
    with pytest.raises(errors.NoSuchBucket):
        run(uploads.create(judged, "k", attributes=folders.PLAIN))
    assert count(storage, Store.UPLOADS) == 0


def test_the_body_of_parts_is_joined_as_completion_would(
    storage: Storage, uploads: Uploads
) -> None:
    upload, other = create(uploads), create(uploads, "other")
    parts = [send(storage, uploads, upload, 1, FULL), send(storage, uploads, upload, 2, b"end")]
    named = [(part.part_number, part.etag) for part in parts]
    body = uploads.joined("raw", "k", upload.upload_id, named)
    assert storage.blobs.read(body) == FULL + b"end"
    for key, upload_id in (("other", upload.upload_id), ("k", other.upload_id)):
        with pytest.raises(errors.NoSuchUpload):
            uploads.joined("raw", key, upload_id, named)
    with pytest.raises(errors.PartOutOfOrder):
        uploads.joined("raw", "k", upload.upload_id, named[::-1])
    with pytest.raises(errors.InvalidPart):
        uploads.joined("raw", "k", upload.upload_id, [(1, "0" * 32)])


@pytest.mark.parametrize("change", ["id", "key", "nonsense", "ended"])
def test_an_unknown_upload_or_one_of_another_key_is_no_such_upload(
    storage: Storage, uploads: Uploads, tmp_path: Path, change: str
) -> None:
    upload = create(uploads)
    key, upload_id = upload.key, upload.upload_id
    if change == "ended":
        run(uploads.abort("raw", key, upload_id))
    key = "other" if change == "key" else key
    upload_id = {"id": "0" * 32, "nonsense": "../x"}.get(change, upload_id)
    with pytest.raises(errors.NoSuchUpload):
        uploads.get("raw", key, upload_id)
    with pytest.raises(errors.NoSuchUpload):
        uploads.list_parts("raw", key, upload_id)
    with pytest.raises(errors.NoSuchUpload):
        run(uploads.complete("raw", key, upload_id, [(1, "0" * 32)]))
    received = run(storage.blobs.store(FULL, digests=folders.MD5))
    with pytest.raises(errors.NoSuchUpload):
        run(uploads.put_part("raw", key, upload_id, 1, received))
    assert folders.blob_files(tmp_path / "data") == set()


@pytest.mark.parametrize("number", [0, -1, 10_001])
def test_a_part_number_out_of_bounds_is_refused_and_leaves_no_file(
    storage: Storage, uploads: Uploads, tmp_path: Path, number: int
) -> None:
    upload = create(uploads)
    with pytest.raises(errors.InvalidPart):
        send(storage, uploads, upload, number, FULL)
    assert folders.blob_files(tmp_path / "data") == set()


def test_list_parts_pages_by_number(storage: Storage, uploads: Uploads) -> None:
    upload = create(uploads)
    parts = [send(storage, uploads, upload, number, b"x") for number in (1, 2, 256, 10_000)]
    page = uploads.list_parts("raw", "k", upload.upload_id, parts_max=2)
    assert (page.parts, page.next_after) == (tuple(parts[:2]), 2)
    page = uploads.list_parts("raw", "k", upload.upload_id, after=2, parts_max=2)
    assert (page.parts, page.next_after) == (tuple(parts[2:]), None)
    page = uploads.list_parts("raw", "k", upload.upload_id, after=10_000)
    assert (page.parts, page.next_after) == ((), None)
    assert uploads.list_parts("raw", "k", upload.upload_id, parts_max=0).parts == ()


def test_list_pages_by_key_then_by_id(storage: Storage, uploads: Uploads) -> None:
    created = [create(uploads, key) for key in ("b", "a", "a", "d/1", "d/2", "c" * 900, "b\x00")]
    expected = sorted(created, key=lambda each: (each.key.encode(), each.upload_id))
    listed: list[UploadInfo] = []
    key_marker, id_marker = "", ""
    while True:
        page = uploads.list("raw", key_marker=key_marker, upload_id_marker=id_marker, uploads_max=2)
        listed += page.uploads
        if page.next_after is None:
            break
        key_marker, id_marker = page.next_after
    assert listed == expected
    behind_a = uploads.list("raw", key_marker="a")
    assert [each.key for each in behind_a.uploads] == ["b", "b\x00", "c" * 900, "d/1", "d/2"]


def test_list_of_uploads_knows_prefix_and_delimiter(storage: Storage, uploads: Uploads) -> None:
    for key in ("a", "d/1", "d/2", "e/1"):
        create(uploads, key)
    page = uploads.list("raw", delimiter="/")
    assert [each.key for each in page.uploads] == ["a"]
    assert page.common_prefixes == ("d/", "e/")
    assert [each.key for each in uploads.list("raw", prefix="d/").uploads] == ["d/1", "d/2"]
    first = uploads.list("raw", delimiter="/", uploads_max=2)
    assert first.next_after is not None
    rest = uploads.list("raw", delimiter="/", key_marker=first.next_after[0])
    assert (rest.uploads, rest.common_prefixes) == ((), ("e/",))


def test_an_upload_into_an_absent_bucket_is_no_such_bucket(uploads: Uploads) -> None:
    with pytest.raises(errors.NoSuchBucket):
        run(uploads.create("none", "k", attributes=folders.PLAIN))
    with pytest.raises(errors.NoSuchBucket):
        uploads.list("none")
    with pytest.raises(errors.InvalidKey):
        create(uploads, "k" * 1025)
