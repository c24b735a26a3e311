"""rule: which source objects a table has loaded, recorded in the commit that loaded them.

A writer lists what it read in the snapshot's summary, under `boathouse.loads`: a JSON list of
{source, etag}, or {object} with the name of an object that has a long list. Each source becomes a
row that must not exist yet, so two jobs that read the same file cannot both commit. Rows outlive
the snapshot and its expiry. `boathouse.loads.mode` = `replace` means that the snapshot replaces the
table's content: the same commit removes the rows of earlier loads.

A commit writes few rows itself. Of a long list it writes one row that packs all others, so that it
does not hold the index's writer; `catalog.unpacking` writes them out afterwards, in steps. Until
then the table takes in nothing else, and `page` reads the packed ones.

A plan looks for sources that are taken before its transaction. That is safe: every commit that
takes in sources moves the table's pointer, and the transaction expects the pointer that the plan
began with.
"""

from __future__ import annotations

import bisect
import heapq
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from catalog import errors, records
from catalog.metadata import model
from storage import batch
from storage import errors as storage_errors

SUMMARY_KEY: Final = "boathouse.loads"
MODE_KEY: Final = "boathouse.loads.mode"
NOTHING_LOADED: Final[Mapping[str, str]] = types.MappingProxyType(
    {SUMMARY_KEY: "[]", MODE_KEY: "replace"}
)
"""Fields of the summary of a snapshot after which every source may be loaded again."""

LOADS_MAX: Final = 100_000
LIST_BYTES_MAX: Final = 32 * 1024 * 1024
REFERENCE_CHARACTERS_MAX: Final = 4096
"""The form of a summary without a list: the object that has it."""
TEXT_CHARACTERS_MAX: Final = 4096
SHOWN_MAX: Final = 3
SOURCES_AT_ONCE: Final = 200
"""Sources that are looked up and written on the event loop: some milliseconds."""
ROWS_AT_ONCE: Final = 500
"""Rows that one transaction writes or removes."""
PACKED_LEVEL: Final = 1
HASH_AT: Final = 20
"""Where the hash of the source begins in a row's key."""
LIST_BYTES_AT_ONCE: Final = 16 * 1024
PAGE_MAX: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The sources of one snapshot. mode replace removes all others of the table."""

    snapshot_id: int
    sources: tuple[tuple[str, str], ...]
    mode: Literal["append", "replace"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadPage:
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


def any_since(before: model.TableMetadata, after: model.TableMetadata) -> bool:
    """Return whether sources may have been loaded between two states of a table.

    A change that only forgets what was loaded before has loaded none.
    """
    newer = [each for each in after.snapshots.ids if each not in before.snapshots]
    if after.last_sequence_number - before.last_sequence_number > len(newer):
        return True  # a snapshot between them is expired
    summaries = ((after.snapshots.get(each) or {}).get("summary") or {} for each in newer)
    nothing = NOTHING_LOADED[SUMMARY_KEY]
    return any(summary.get(SUMMARY_KEY, nothing) != nothing for summary in summaries)


def taken_by(updates: Iterable[Any], read: Callable[[str], bytes]) -> tuple[Taken, ...]:
    """Return the sources of the updates' snapshots. Raises InvalidCatalogRequest.

    read: returns the bytes of an object that a summary names.
    """
    taken = []
    for snapshot_id, summary in _summaries(updates):
        text = summary[SUMMARY_KEY]
        uri = _object_of(text)
        listed = _sources_of(text if uri is None else read(uri))
        mode = summary.get(MODE_KEY, "append")
        if mode not in ("append", "replace"):
            raise errors.InvalidCatalogRequest(
                f"Invalid {MODE_KEY}: {mode} is not append or replace"
            )
        sources = tuple(dict.fromkeys(map(_checked, listed)))
        taken.append(Taken(snapshot_id=snapshot_id, sources=sources, mode=mode))
    return tuple(taken)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unwritten:
    """A load whose rows are not all written yet.

    expects: the load's own row. rows: keys and values, in the order of the keys.
    """

    expects: batch.Expect
    replacing: bool
    rows: Sequence[tuple[bytes, bytes]]
    keys: frozenset[bytes]


def plan(
    reading: batch.Entering,
    place: records.Place,
    object_uuid: str,
    taken: Sequence[Taken],
    *,
    now_ms: int,
    load_id: str,
) -> batch.Batch:
    """Return the Batch that records the loaded sources. Raises LoadAlreadyTaken.

    taken: in the order of the snapshots; sources before one that replaces all are not recorded. It
    is refused while rows of an earlier load are unwritten. load_id: fresh.
    """
    replacements = [index for index, each in enumerate(taken) if each.mode == "replace"]
    replacing = bool(replacements)
    if replacing:
        taken = taken[replacements[-1] :]
    rows: dict[bytes, bytes] = {}
    again: list[str] = []
    for each in taken:
        for source, etag in each.sources:
            key = records.load_key(place.bucket_id, object_uuid, source, etag)
            if key in rows:
                continue
            if not replacing and reading.get(batch.Store.LOADS, key) is not None:
                again.append(source)
            row = records.LoadRow(
                source=source, etag=etag, snapshot_id=each.snapshot_id, taken_at_ms=now_ms
            )
            rows[key] = records.encode(row)
    if again:
        more = f" and {len(again) - SHOWN_MAX} more" if len(again) > SHOWN_MAX else ""
        raise errors.LoadAlreadyTaken(
            "Cannot commit: the table has already taken in " + ", ".join(again[:SHOWN_MAX]) + more
        )
    unwritten_key = records.unwritten_loads_key(place.bucket_id, object_uuid)
    expects = (batch.Expect(store=batch.Store.LOADS, key=unwritten_key, value=None),)
    earlier: list[tuple[bytes, bytes]] = []
    if replacing:
        start = records.first_load_key(place.bucket_id, object_uuid)
        stop = records.stop_after(unwritten_key)
        earlier = reading.take(batch.Store.LOADS, start, stop, ROWS_AT_ONCE)
    if len(rows) <= ROWS_AT_ONCE and len(earlier) < ROWS_AT_ONCE:
        gone = tuple(
            batch.Delete(store=batch.Store.LOADS, key=key) for key, _ in earlier if key not in rows
        )
        return batch.Batch(expects=expects, writes=(*gone, *_puts(rows.items())))
    header = records.UnwrittenLoads(load_id=load_id, replacing=replacing)
    packed_key = records.packed_loads_key(place.bucket_id, object_uuid)
    large = ((unwritten_key, records.encode(header)), (packed_key, _pack(rows)))
    return batch.Batch(expects=expects, writes=_puts(large))


def unwritten(reading: batch.Lookup, bucket_id: int, object_uuid: str) -> Unwritten | None:
    """Return the table's load whose rows are not all written yet, if there is one."""
    key = records.unwritten_loads_key(bucket_id, object_uuid)
    value = reading.get(batch.Store.LOADS, key)
    if value is None:
        return None
    packed = reading.get(batch.Store.LOADS, records.packed_loads_key(bucket_id, object_uuid))
    if packed is None:
        raise storage_errors.CorruptRecord("a load has no packed rows")
    rows = _unpack(packed)
    return Unwritten(
        expects=batch.Expect(store=batch.Store.LOADS, key=key, value=value),
        replacing=records.decode(value, records.UnwrittenLoads).replacing,
        rows=rows,
        keys=frozenset(key for key, _ in rows),
    )


def plan_removals(load: Unwritten, earlier: Iterable[tuple[bytes, bytes]]) -> batch.Batch:
    """Return the Batch that removes what a replacing load does not name. earlier: rows."""
    return batch.Batch(
        expects=(load.expects,),
        writes=tuple(
            batch.Delete(store=batch.Store.LOADS, key=key)
            for key, _ in earlier
            if key not in load.keys
        ),
    )


def plan_rows(load: Unwritten) -> Iterator[batch.Batch]:
    """Return the Batches that write a load's rows."""
    for rows in _in_steps(load.rows):
        yield batch.Batch(expects=(load.expects,), writes=_puts(rows))


def plan_end(load: Unwritten, bucket_id: int, object_uuid: str) -> batch.Batch:
    """Return the Batch that lets the table take in more, once all rows are written."""
    packed_key = records.packed_loads_key(bucket_id, object_uuid)
    return batch.Batch(
        expects=(load.expects,),
        writes=(
            batch.Delete(store=batch.Store.LOADS, key=packed_key),
            batch.Delete(store=batch.Store.LOADS, key=load.expects.key),
        ),
    )


def page(
    reading: batch.Reading,
    place: records.Place,
    object_uuid: str,
    *,
    after: str = "",
    limit: int = PAGE_MAX,
) -> LoadPage:
    """Return loads of a table, limit at most. after: a page's next. Raises InvalidPageToken."""
    prefix = records.object_prefix(place.bucket_id, object_uuid)
    try:
        start = prefix + bytes.fromhex(after) + b"\x00"
    except ValueError:
        raise errors.InvalidPageToken(f"Invalid page token: {after}") from None
    start = max(start, records.first_load_key(place.bucket_id, object_uuid))
    rows = reading.scan(batch.Store.LOADS, start, records.stop_after(prefix))
    load = unwritten(reading, place.bucket_id, object_uuid)
    if load is not None:
        packed = iter(load.rows[bisect.bisect_left(load.rows, (start, b"")) :])
        rows = packed if load.replacing else heapq.merge(rows, packed)
    loaded: list[records.LoadRow] = []
    last = b""
    for key, value in rows:
        if key == last:  # written, and packed
            continue
        if len(loaded) == limit:
            return LoadPage(loads=tuple(loaded), next=last[len(prefix) :].hex())
        loaded.append(records.decode(value, records.LoadRow))
        last = key
    return LoadPage(loads=tuple(loaded), next=None)


def _puts(rows: Iterable[tuple[bytes, bytes]]) -> tuple[batch.Put, ...]:
    return tuple([batch.Put(store=batch.Store.LOADS, key=key, value=value) for key, value in rows])


def _pack(rows: Mapping[bytes, bytes]) -> bytes:
    """Return rows, sorted by their keys, as one value.

    Sorting, encoding and decoding 100,000 rows at once would each hold the interpreter for some
    50 milliseconds, in a thread too: so all of it is done in steps.
    """
    by_byte: list[list[tuple[bytes, bytes]]] = [[] for _ in range(256)]
    for row in rows.items():
        by_byte[row[0][HASH_AT]].append(row)
    for part in by_byte:
        part.sort()
    ordered = [row for part in by_byte for row in part]
    frames = [msgspec.msgpack.encode(step) for step in _in_steps(ordered)]
    return records.FORMAT + zlib.compress(msgspec.msgpack.encode(frames), PACKED_LEVEL)


def _unpack(packed: bytes) -> list[tuple[bytes, bytes]]:
    if packed[:1] != records.FORMAT:
        raise storage_errors.CorruptRecord("the packed rows of a load have another format")
    frames = _decode_frames(zlib.decompress(packed[1:]))
    return [row for frame in frames for row in _decode_rows(frame)]


def _in_steps(rows: Sequence[tuple[bytes, bytes]]) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


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


_decode_frames = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_rows = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]]).decode
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


def _malformed(expected: str) -> errors.InvalidCatalogRequest:
    return errors.InvalidCatalogRequest(f"Cannot parse {SUMMARY_KEY}: it must be {expected}")
