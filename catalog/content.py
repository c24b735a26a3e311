"""rule: checks that a body has the format of its key: the content rules of a strict table bucket.

Formats are recognised by their first and last bytes. A metadata file is read whole, because it must
also be the metadata of the table that owns the location. Files of encrypted tables may be streams
of ciphertext in place of Avro, Puffin or JSON. Keys must have passed `layout.judge`. Opens no file.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from catalog import idents, layout, properties

EDGE_BYTES: Final = 4
"""Bytes of either end that `check_content` reads."""

HINT_BYTES_MAX: Final = 64
METADATA_BYTES_MAX: Final = 40 * 1024 * 1024
"""Largest metadata file, decompressed: that of a registration."""
FACT_BYTES_MAX: Final = 8 * 1024
"""Longest version, uuid or location in a metadata file that is read."""

FORMAT_VERSIONS: Final = (1, 2, 3, 4)

_PARQUET = (b"PAR1", b"PARE")
_PARQUET_BYTES_MIN = 12
_ORC = b"ORC"
_AVRO = b"Obj\x01"
_PUFFIN = b"PFA1"
_ENCRYPTED = b"AGS1"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_HINT = "/metadata/version-hint.text"


_NOTHING: Final = msgspec.Raw(b"null")


class _Said(msgspec.Struct, frozen=True, rename="kebab"):
    """The members of a metadata file that are checked. The decoder skips all others."""

    format_version: msgspec.Raw = _NOTHING
    table_uuid: msgspec.Raw = _NOTHING
    view_uuid: msgspec.Raw = _NOTHING
    location: msgspec.Raw = _NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class MetadataOwner:
    """The table that owns a metadata file's location. uuid: None before its first metadata."""

    object_type: idents.PointerType
    uuid: str | None
    location: str


def whole_bytes_max(key: str) -> int:
    """Return the largest body of key that `check_content` needs whole; 0 if its ends suffice."""
    if key.endswith(_HINT):
        return HINT_BYTES_MAX
    return METADATA_BYTES_MAX if key.endswith(layout.METADATA_SUFFIXES) else 0


def check_content(
    key: str,
    *,
    role: layout.KeyRole,
    size_bytes: int,
    head: bytes,
    tail: bytes,
    whole: bytes | None = None,
    owner: MetadataOwner | None = None,
) -> None:
    """Raise LayoutRefused (content-magic, content-metadata) if the body does not fit its name.

    head, tail: its first and last EDGE_BYTES, or the whole of a shorter body. whole: the body, if
    `whole_bytes_max` needs it; a longer body is refused without it. owner: of the location that key
    lies below, None if there is none.
    """
    if role == "scratch":
        return
    if role == "marker":
        layout.check_body(key, size_bytes=size_bytes)
    elif bytes_max := whole_bytes_max(key):
        if size_bytes > bytes_max:
            detail = f"is larger than {bytes_max} bytes"
            layout.refuse_content(key, rule="content-magic", detail=detail)
        assert whole is not None
        assert len(whole) == size_bytes
        _check_whole(key, whole, owner)
    else:
        _check_ends(key, size_bytes=size_bytes, head=head, tail=tail)


def _check_ends(key: str, *, size_bytes: int, head: bytes, tail: bytes) -> None:
    suffix = key.rpartition(".")[2]
    start, end = head[:EDGE_BYTES], tail[-EDGE_BYTES:]
    match suffix:
        case "parquet":
            fits = size_bytes >= _PARQUET_BYTES_MIN and start in _PARQUET and end == start
        case "orc":
            # The last byte is the length of the postscript, which ends in the magic.
            fits = start.startswith(_ORC) and end[:-1] == _ORC and size_bytes > 2 * len(_ORC)
        case "avro":
            fits = start in (_AVRO, _ENCRYPTED)
        case "puffin" | "stats":
            fits = start == _ENCRYPTED or (start == end == _PUFFIN and size_bytes > EDGE_BYTES)
        case other:
            raise AssertionError(f"the layout has no files named .{other}")
    if not fits:
        detail = f"does not hold what .{suffix} files begin and end with"
        layout.refuse_content(key, rule="content-magic", detail=detail)


def _check_whole(key: str, whole: bytes, owner: MetadataOwner | None) -> None:
    if key.endswith(_HINT):
        if not _is_text(whole):
            detail = f"is not text of at most {HINT_BYTES_MAX} bytes"
            layout.refuse_content(key, rule="content-magic", detail=detail)
        return
    if whole.startswith(_ENCRYPTED):
        return
    if key.endswith(".zstd.metadata.json"):
        if not whole.startswith(_ZSTD):
            layout.refuse_content(key, rule="content-magic", detail="is not compressed by zstd")
        return
    if key.endswith((".gz.metadata.json", ".metadata.json.gz")):
        whole = _gunzip(key, whole)
    _check_metadata(key, whole, owner)


def _gunzip(key: str, whole: bytes) -> bytes:
    if not whole.startswith(_GZIP):
        layout.refuse_content(key, rule="content-magic", detail="is not compressed by gzip")
    decompressor = zlib.decompressobj(wbits=31)
    try:
        data = decompressor.decompress(whole, METADATA_BYTES_MAX)
    except zlib.error:
        layout.refuse_content(key, rule="content-magic", detail="is broken gzip")
    if not decompressor.eof:
        detail = f"is cut short, or larger than {METADATA_BYTES_MAX} bytes when decompressed"
        layout.refuse_content(key, rule="content-magic", detail=detail)
    return data


def _check_metadata(key: str, data: bytes, owner: MetadataOwner | None) -> None:
    try:
        said = msgspec.json.decode(data, type=_Said)
    except msgspec.ValidationError:
        _refuse_metadata(key, "is not a JSON object")
    except (msgspec.DecodeError, UnicodeDecodeError):
        _refuse_metadata(key, "is not JSON")
    except RecursionError:
        _refuse_metadata(key, "is nested too deep")
    version = _fact(key, said.format_version)
    if not isinstance(version, int) or isinstance(version, bool) or version not in FORMAT_VERSIONS:
        _refuse_metadata(key, "has no format-version from 1 to 4")
    if owner is None:
        return
    uuid_name = f"{owner.object_type}-uuid"
    uuid = _fact(key, said.table_uuid if owner.object_type == "table" else said.view_uuid)
    if uuid is None and (owner.object_type == "view" or version != 1):
        _refuse_metadata(key, f"has no {uuid_name}")
    if uuid is not None and owner.uuid is not None and uuid != owner.uuid:
        _refuse_metadata(key, f"has the {uuid_name} of another {owner.object_type}")
    location = _fact(key, said.location)
    if not isinstance(location, str) or not _is_same_place(location, owner.location):
        _refuse_metadata(key, f"has another location than the {owner.object_type} it lies below")


def _fact(key: str, raw: msgspec.Raw) -> Any:
    text = bytes(raw)
    if len(text) > FACT_BYTES_MAX:
        _refuse_metadata(key, "has a version, uuid or location of many bytes")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        _refuse_metadata(key, "is not JSON")
    except RecursionError:
        _refuse_metadata(key, "is nested too deep")


def _refuse_metadata(key: str, detail: str) -> NoReturn:
    layout.refuse_content(key, rule="content-metadata", detail=detail)


def _is_same_place(location: str, other: str) -> bool:
    return properties.plain_uri(location) == properties.plain_uri(other)


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return text.rstrip("\r\n").isprintable()
