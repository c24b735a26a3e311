"""rule: which source objects a table has loaded, recorded in the commit that loaded them.

A writer lists what it read in the snapshot's summary, under `boathouse.loads`: a JSON list of
{source, etag}, or {object} with the name of an object that has a long list. Each source becomes a
row that must not exist yet, so two jobs that read the same file cannot both commit. Rows outlive
the snapshot and its expiry. `boathouse.loads.mode` = `replace` means that the snapshot replaces the
table's content: the same commit removes the rows of earlier loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from catalog import errors, records
from storage import batch

SUMMARY_KEY: Final = "boathouse.loads"
MODE_KEY: Final = "boathouse.loads.mode"

LOADS_MAX: Final = 100_000
LIST_BYTES_MAX: Final = 32 * 1024 * 1024
REFERENCE_CHARACTERS_MAX: Final = 4096
"""The form of a summary without a list: the object that has it."""
TEXT_CHARACTERS_MAX: Final = 4096
SHOWN_MAX: Final = 3
SOURCES_AT_ONCE: Final = 200
"""Sources that are looked up and written on the event loop: some milliseconds."""
LIST_BYTES_AT_ONCE: Final = 16 * 1024
PAGE_MAX: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The sources of one snapshot. mode replace removes all others of the table."""

    snapshot_id: int
    sources: tuple[tuple[str, str], ...]
    mode: Literal["append", "replace"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some of a table's loads, in no particular order. next: the token of the next page."""

    loads: tuple[records.LoadRow, ...]
    next: str | None


def objects_named(updates: Iterable[Any]) -> list[str]:
    """Return the objects with lists of sources that the updates' summaries name."""
    named = []
    for _, summary in _summaries(updates):
        uri = _object_of(summary[SUMMARY_KEY])
        if uri is not None:
            named.append(uri)
    return named


def are_large(updates: Iterable[Any]) -> bool:
    """Return whether reading the lists of sources would hold the event loop for too long."""
    return any(
        not isinstance(text := summary[SUMMARY_KEY], str)
        or len(text) > LIST_BYTES_AT_ONCE
        or '"object"' in text
        for _, summary in _summaries(updates)
    )


def taken_by(updates: Iterable[Any], read: Callable[[str], bytes]) -> tuple[Taken, ...]:
    """Return the sources of the updates' snapshots. Raises InvalidArgument.

    read: returns the bytes of an object that a summary names.
    """
    taken = []
    for snapshot_id, summary in _summaries(updates):
        text = summary[SUMMARY_KEY]
        uri = _object_of(text)
        listed = _sources_of(text if uri is None else read(uri))
        mode = summary.get(MODE_KEY, "append")
        if mode not in ("append", "replace"):
            raise errors.InvalidArgument(f"Invalid {MODE_KEY}: {mode} is not append or replace")
        sources = tuple(dict.fromkeys(map(_checked, listed)))
        taken.append(Taken(snapshot_id=snapshot_id, sources=sources, mode=mode))
    return tuple(taken)


def plan(
    reading: batch.Reading,
    place: records.Place,
    object_uuid: str,
    taken: Sequence[Taken],
    *,
    now_ms: int,
) -> batch.Batch:
    """Return the Batch that records the loaded sources. Raises LoadAlreadyTaken."""
    expects: list[batch.Expect] = []
    writes: list[batch.Write] = []
    derive: list[batch.Derivation] = []
    again: list[str] = []
    own: set[bytes] = set()
    replacing = any(each.mode == "replace" for each in taken)
    for each in taken:
        for source, etag in each.sources:
            key = records.load_key(place.bucket_id, object_uuid, source, etag)
            if key in own:
                continue
            own.add(key)
            if not replacing:
                if reading.get(batch.Store.LOADS, key) is not None:
                    again.append(source)
                expects.append(batch.Expect(store=batch.Store.LOADS, key=key, value=None))
            row = records.LoadRow(
                source=source, etag=etag, snapshot_id=each.snapshot_id, taken_at_ms=now_ms
            )
            writes.append(batch.Put(store=batch.Store.LOADS, key=key, value=records.encode(row)))
    if again:
        more = f" and {len(again) - SHOWN_MAX} more" if len(again) > SHOWN_MAX else ""
        raise errors.LoadAlreadyTaken(
            "Cannot commit: the table has already taken in " + ", ".join(again[:SHOWN_MAX]) + more
        )
    if replacing:
        derive.append(_forget_others(records.object_prefix(place.bucket_id, object_uuid), own))
    return batch.Batch(expects=tuple(expects), writes=tuple(writes), derive=tuple(derive))


def page(
    reading: batch.Reading,
    place: records.Place,
    object_uuid: str,
    *,
    after: str = "",
    limit: int = PAGE_MAX,
) -> Page:
    """Return loads of a table, limit at most. after: a page's next. Raises InvalidPageToken."""
    prefix = records.object_prefix(place.bucket_id, object_uuid)
    try:
        start = prefix + bytes.fromhex(after) + (b"\x00" if after else b"")
    except ValueError:
        raise errors.InvalidPageToken(f"Invalid page token: {after}") from None
    rows: list[records.LoadRow] = []
    last = b""
    for key, value in reading.scan(batch.Store.LOADS, start, records.stop_after(prefix)):
        if len(rows) == limit:
            return Page(loads=tuple(rows), next=last.hex())
        rows.append(records.decode(value, records.LoadRow))
        last = key[len(prefix) :]
    return Page(loads=tuple(rows), next=None)


def _forget_others(prefix: bytes, own: set[bytes]) -> batch.Derivation:
    def forget(reading: batch.Reading) -> tuple[batch.Write, ...]:
        rows = reading.scan(batch.Store.LOADS, prefix, records.stop_after(prefix))
        gone = [key for key, _ in rows if key not in own]
        return tuple(batch.Delete(store=batch.Store.LOADS, key=key) for key in gone)

    return forget


def _summaries(updates: Iterable[Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return (snapshot id, summary) of every added snapshot that has loads."""
    summaries: list[tuple[int, Mapping[str, Any]]] = []
    for update in updates:
        if not isinstance(update, dict) or update.get("action") != "add-snapshot":
            continue
        snapshot = update.get("snapshot")
        summary = snapshot.get("summary") if isinstance(snapshot, dict) else None
        if isinstance(summary, dict) and SUMMARY_KEY in summary:
            snapshot_id = snapshot.get("snapshot-id") if isinstance(snapshot, dict) else None
            if isinstance(snapshot_id, int):
                summaries.append((snapshot_id, summary))
    return summaries


class _Source(msgspec.Struct, frozen=True, gc=False):
    source: str
    etag: str = ""


_decode_sources = msgspec.json.Decoder(list[_Source]).decode
_decode_reference = msgspec.json.Decoder(dict[str, Any]).decode


def _object_of(text: Any) -> str | None:
    """Return the object that a summary names instead of a list; None if it has the list."""
    if not isinstance(text, str):
        raise _malformed("JSON text")
    if not text[:64].lstrip().startswith("{"):
        return None
    if len(text) > REFERENCE_CHARACTERS_MAX:
        raise _malformed('a list, or {"object": "s3://bucket/key"}')
    try:
        uri = _decode_reference(text).get("object")
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise _malformed("JSON text") from None
    if not isinstance(uri, str) or not uri.startswith("s3://"):
        raise _malformed('a list, or {"object": "s3://bucket/key"}')
    return uri


def _sources_of(text: str | bytes) -> list[_Source]:
    if len(text) > LIST_BYTES_MAX:
        raise _malformed(f"at most {LIST_BYTES_MAX} bytes long")
    braces = text.count("{") if isinstance(text, str) else text.count(b"{")
    if braces <= 2 * LOADS_MAX:  # names of sources may contain braces
        try:
            sources = _decode_sources(text)
        except msgspec.ValidationError:
            raise _malformed("a list of {source, etag}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise _malformed("JSON text") from None
        if len(sources) <= LOADS_MAX:
            return sources
    raise _malformed(f"a list of at most {LOADS_MAX} sources")


def _checked(item: _Source) -> tuple[str, str]:
    source, etag = item.source, item.etag
    if not source:
        raise _malformed("a list of {source, etag}")
    if len(source) > TEXT_CHARACTERS_MAX or len(etag) > TEXT_CHARACTERS_MAX:
        raise _malformed(f"sources of at most {TEXT_CHARACTERS_MAX} characters")
    return source, etag


def _malformed(expected: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"Cannot parse {SUMMARY_KEY}: it must be {expected}")
