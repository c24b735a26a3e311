"""rule: which keys a table bucket accepts, and why it refuses the others.

A key is a location (namespace parts, then the table part), an anchor (`metadata` or `data`), and a
file below it; or a directory marker. The location is the one in the catalog; without one it is read
from the key's own syntax. A refusal names the first violated rule, in a fixed order, with the
segment and its position, so that the client can correct the key.

Checks names, never bytes: `check_body` adds the one rule about sizes (a directory marker is empty),
and `catalog.content` checks bytes. Reads and deletes are not checked here. Never normalises a key
and never checks whether a namespace or a table exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias

from catalog import idents
from server.s3 import guard

KeyRole: TypeAlias = Literal["metadata", "data", "scratch", "marker"]

KEY_BYTES_MAX: Final = 1024
LOCATION_SEGMENTS_MIN: Final = 2
LOCATION_SEGMENTS_MAX: Final = 17
SEGMENT_SHOWN_CHARACTERS_MAX: Final = 128

RULES: Final = (
    "key-encoding",
    "empty-segment",
    "dot-segment",
    "hidden-segment",
    "location-depth",
    "no-anchor",
    "unregistered",
    "view-data",
    "bare-anchor",
    "marker-body",
    "metadata-nested",
    "metadata-name",
    "data-directory",
    "data-name",
    "content-magic",
    "content-metadata",
    "write-once",
)
"""Every rule that a refusal can name, in the order of the checks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """A location in the catalog. path: segments joined by `/`, without a slash at either end."""

    path: str
    object_type: idents.PointerType = "table"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a writable key is. location: its path, None for a marker above every location."""

    role: KeyRole
    location: str | None


def judge(
    key: str | bytes, *, location: Location | None, require_registered: bool = False
) -> Verdict:
    """Return the verdict on key. Raises LayoutRefused with the first rule that it violates.

    key: decoded once. location: the result of `find_location`; the key is at or below it.
    require_registered: refuse keys below no location of the catalog.
    """
    text = _check_encoding(key)
    segments = text.split("/")
    is_marker = segments[-1] == "" and len(segments) > 1
    if is_marker:
        segments.pop()
    _check_segments(segments)
    anchor_index = _find_anchor(segments, location=location, is_marker=is_marker)
    if anchor_index is None:
        return Verdict(role="marker", location=None if location is None else location.path)
    anchor = segments[anchor_index]
    path = "/".join(segments[:anchor_index])
    if require_registered and location is None:
        _refuse(
            "unregistered",
            segments,
            anchor_index - 1,
            f"the catalog has no table or view at {_quote(path)}",
        )
    if location is not None and location.object_type == "view" and anchor == "data":
        _refuse("view-data", segments, anchor_index, "cannot lie below a view, which has no data")
    if anchor_index == len(segments) - 1 and not is_marker:
        _refuse("bare-anchor", segments, anchor_index, "is the directory itself, not a file in it")
    if anchor == "metadata":
        role = _judge_metadata(segments, anchor_index, is_marker=is_marker)
    else:
        role = _judge_data(segments, anchor_index, is_marker=is_marker)
    return Verdict(role=role, location=path)


def find_location(key: str, lookup: Callable[[str], Location | None]) -> Location | None:
    """Return the longest location at or above key, on segment boundaries.

    lookup: returns a path's location; called at most once per segment, longest first.
    """
    ends = [index for index, character in enumerate(key) if character == "/"]
    ends.append(len(key))
    for end in reversed(ends[LOCATION_SEGMENTS_MIN - 1 : LOCATION_SEGMENTS_MAX]):
        location = lookup(key[:end])
        if location is not None:
            return location
    return None


def check_body(key: str, *, size_bytes: int) -> None:
    """Raise LayoutRefused (marker-body) if key is a directory marker and its body is not empty.

    size_bytes: of the decoded body; a chunked empty body is empty. key: passed `judge` before.
    """
    if size_bytes > 0 and key.endswith("/"):
        segments = key.split("/")[:-1]
        detail = f"is a directory marker and must be empty, not {size_bytes} bytes"
        _refuse("marker-body", segments, len(segments) - 1, detail)


def check_location(path: str) -> None:
    """Raise LayoutRefused if path cannot be the location of a table or view.

    path: below the bucket, without a slash at either end. Files can be written below a valid one.
    """
    segments = _check_encoding(path).split("/")
    _check_segments(segments)
    _check_depth(segments, len(segments))


def check_directory(path: str, *, location: Location) -> None:
    """Raise LayoutRefused if no file may be written directly below a directory of a table.

    path: of the directory, below the bucket, without a slash at either end.
    """
    # A name that both anchors accept, so that only the directory is checked.
    judge(f"{path}/f.parquet", location=location)


def refuse_write_once(key: str) -> NoReturn:
    """Raise LayoutRefused (write-once): key has other bytes, and table files are never changed."""
    segments = key.split("/")
    detail = "exists with other bytes, and the files of a table never change"
    _refuse("write-once", segments, len(segments) - 1, detail)


def refuse_content(key: str, *, rule: str, detail: str) -> NoReturn:
    """Raise LayoutRefused for a body that does not have the format of its name."""
    segments = key.split("/")
    _refuse(rule, segments, len(segments) - 1, detail)


def is_mutable(key: str, role: KeyRole) -> bool:
    """Return whether key may be overwritten: hints, markers and spill files are not table files."""
    return role in ("marker", "scratch") or key.endswith("/metadata/version-hint.text")


# The parts of a key.

_CONTROL = re.compile("[\x00-\x1f\x7f]")
METADATA_SUFFIXES: Final = (".metadata.json", ".metadata.json.gz")
"""How the metadata files of tables and views end."""

_META_SUFFIXES = (
    *METADATA_SUFFIXES,
    ".avro",
    ".stats",
    ".puffin",
    ".parquet",
    ".orc",
)
_DATA_SUFFIXES = (".parquet", ".orc", ".avro", ".puffin")
_HASH_DIRECTORY = re.compile(
    r"[01]{1,20}|[0-9a-f]{2,40}|[A-Za-z0-9_-]{6}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_SPILL_DIRECTORY = re.compile(r"([01]{8}-)?trino-tmp-files")
_SPILL_NAME_PREFIX = "sorting-file-writer-"


def _check_encoding(key: str | bytes) -> str:
    # A surrogate stands for a byte that is not UTF-8, and is encoded as that byte.
    data = key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text or len(data) > KEY_BYTES_MAX or _CONTROL.search(text):
        _refuse_encoding(data)
    return text


def _refuse_encoding(data: bytes) -> NoReturn:
    parts = data.split(b"/")
    shown = [part.decode("utf-8", "replace") for part in parts]
    end = -1
    for position, part in enumerate(parts):
        end += len(part) + 1
        if end > KEY_BYTES_MAX:
            detail = f"ends past {KEY_BYTES_MAX} bytes, the longest a key may be"
            _refuse("key-encoding", shown, position, detail)
        try:
            text = part.decode("utf-8")
        except UnicodeDecodeError:
            _refuse("key-encoding", shown, position, "is not valid UTF-8")
        if _CONTROL.search(text):
            _refuse("key-encoding", shown, position, "holds a control character")
    _refuse("key-encoding", shown, 0, "is empty")


def _check_segments(segments: Sequence[str]) -> None:
    if "" in segments:
        _refuse("empty-segment", segments, segments.index(""), "is empty")
    for position, segment in enumerate(segments):
        if segment in (".", ".."):
            _refuse("dot-segment", segments, position, "would leave its directory")
    for position, segment in enumerate(segments):
        if segment.startswith("."):
            _refuse("hidden-segment", segments, position, "is a hidden name")


def _find_anchor(
    segments: Sequence[str], *, location: Location | None, is_marker: bool
) -> int | None:
    """Return the anchor's index; None for a marker at or above a location."""
    if location is not None:
        depth = location.path.count("/") + 1
        assert segments[:depth] == location.path.split("/"), "the key lies below its location"
        _check_depth(segments, depth)
        if len(segments) > depth and segments[depth] in ("metadata", "data"):
            return depth
        if len(segments) == depth and is_marker:
            return None
        _refuse_no_anchor(segments, depth)
    for index in range(LOCATION_SEGMENTS_MIN, len(segments)):
        if segments[index] in ("metadata", "data"):
            _check_depth(segments, index)
            return index
    if len(segments) > LOCATION_SEGMENTS_MIN and segments[1] in ("metadata", "data"):
        _check_depth(segments, 1)
    if not is_marker:
        _refuse_no_anchor(segments, LOCATION_SEGMENTS_MIN)
    _check_depth(segments, max(len(segments), LOCATION_SEGMENTS_MIN))
    return None


def _check_depth(segments: Sequence[str], depth: int) -> None:
    """Raise unless depth segments can be a location; segments[depth], if any, is the anchor."""
    if depth < LOCATION_SEGMENTS_MIN:
        detail = "comes too early: a location is a namespace and a table"
        _refuse("location-depth", segments, min(depth, len(segments) - 1), detail)
    if depth > LOCATION_SEGMENTS_MAX:
        detail = f"is too deep: a location has at most {LOCATION_SEGMENTS_MAX} segments"
        _refuse("location-depth", segments, LOCATION_SEGMENTS_MAX, detail)


def _refuse_no_anchor(segments: Sequence[str], index: int) -> NoReturn:
    detail = "is in the place of metadata or data"
    _refuse("no-anchor", segments, min(index, len(segments) - 1), detail)


def _judge_metadata(segments: Sequence[str], anchor_index: int, *, is_marker: bool) -> KeyRole:
    below = segments[anchor_index + 1 :]
    if len(below) > 1 or (below and is_marker):
        _refuse("metadata-nested", segments, anchor_index + 1, "is a directory in metadata/")
    if is_marker:
        return "marker"
    if below[0] != "version-hint.text" and not _has_suffix(below[0], _META_SUFFIXES):
        _refuse("metadata-name", segments, anchor_index + 1, "is not a name of a metadata file")
    return "metadata"


def _judge_data(segments: Sequence[str], anchor_index: int, *, is_marker: bool) -> KeyRole:
    last = len(segments) if is_marker else len(segments) - 1
    in_hash = True
    in_spill = False
    for position in range(anchor_index + 1, last):
        directory = segments[position]
        if _HASH_DIRECTORY.fullmatch(directory):
            continue
        if directory.find("=") > 0:
            in_hash = False
            continue
        if in_hash and position == last - 1 and _SPILL_DIRECTORY.fullmatch(directory):
            in_spill = True
            continue
        detail = "is neither a partition (name=value) nor a hash directory"
        _refuse("data-directory", segments, position, detail)
    if is_marker:
        return "marker"
    name = segments[last]
    if in_spill:
        if len(name) > len(_SPILL_NAME_PREFIX) and name.startswith(_SPILL_NAME_PREFIX):
            return "scratch"
        _refuse("data-name", segments, last, "is not a name of a spill file")
    if not _has_suffix(name, _DATA_SUFFIXES):
        _refuse("data-name", segments, last, "is not a name of a data file")
    return "data"


def _has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether name is a stem and one of suffixes. Hidden names were refused before."""
    return name.endswith(suffixes)


# The refusal.

_EXPECTED_METADATA = (
    "{namespace}/{table}/metadata/file.metadata.json|metadata.json.gz|avro|stats|puffin|parquet|orc"
    " or version-hint.text"
)
_EXPECTED_DATA = "{namespace}/{table}/data/[name=value/…]file.parquet|orc|avro|puffin"
_EXPECTED_EITHER = "{namespace}/{table}/metadata/… or {namespace}/{table}/data/…"
_EXPECTED = {
    "key-encoding": f"1 to {KEY_BYTES_MAX} bytes of UTF-8 without control characters",
    "view-data": "{namespace}/{view}/metadata/file.metadata.json",
    "marker-body": "no bytes at a key that ends with a slash",
    "metadata-nested": _EXPECTED_METADATA,
    "metadata-name": _EXPECTED_METADATA,
    "data-directory": _EXPECTED_DATA,
    "data-name": _EXPECTED_DATA,
    "content-magic": "a body in the format of its name",
    "content-metadata": "the metadata of the table at this location",
    "write-once": "a new name or identical bytes",
}


def _refuse(rule: str, segments: Sequence[str], position: int, detail: str) -> NoReturn:
    segment = _show(segments[position])
    expected = _EXPECTED.get(rule, _EXPECTED_EITHER)
    raise guard.LayoutRefused(
        rule=rule,
        segment=segment,
        position=position,
        message=(
            f"Table bucket layout rule {rule}: segment {_quote(segment)} (position {position})"
            f" {detail}; expected {expected}"
        ),
    )


def _show(segment: str) -> str:
    """Return segment cut to a bounded length, without control characters for logs."""
    cut = segment[:SEGMENT_SHOWN_CHARACTERS_MAX]
    if cut.isprintable():
        return cut
    return "".join(character if character.isprintable() else "\ufffd" for character in cut)


def _quote(text: str) -> str:
    escaped = _show(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
