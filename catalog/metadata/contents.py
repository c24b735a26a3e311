"""rule: what stands where in a large metadata file, so that another process decodes it in steps.

`examine` reads a whole file, checks it and returns its `Contents`: offsets alone. `assemble` makes
the metadata of the same bytes and the Contents, and decodes no piece of more than
`limits.PIECE_VALUES_MAX` JSON values at once. A decoding child runs `examine`, the server
`assemble`: it never holds the interpreter for long, and never sees a file that takes too much.
"""

from __future__ import annotations

import array
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from catalog.metadata import checks, errors, joining, json_values, limits, model

SPANS_AT_ONCE: Final = 10_000
"""Snapshots whose places are noted before other threads get their turn."""

Span = tuple[int, int]

_KEY = re.compile(rb'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BETWEEN = re.compile(rb"[\s,]*")
_MARKS: Final = (b",", b"[", b"{")

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_name = msgspec.json.Decoder(str).decode


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets in a metadata file's JSON.

    fields: where each top-level value lies. items: where the items of `model.LIST_NAMES` lie, as
    starts and stops in turn. snapshot_ids, snapshot_spans: the ids of all snapshots, and where they
    lie within the array, as starts and stops in turn. Both are arrays of 64-bit numbers.
    """

    fields: dict[str, Span]
    items: dict[str, list[int]]
    snapshot_ids: bytes
    snapshot_spans: bytes


def are_many_values(text: bytes, values_max: int) -> bool:
    """Say whether JSON text may hold more than values_max values. Cheap; errs on the many side."""
    return len(text) > 2 * values_max and _marks_in([text]) >= values_max


def examine(data: bytes, *, is_foreign: bool) -> Contents:
    """Return where everything in a metadata file lies. Raises InvalidMetadata.

    is_foreign: a client wrote it, and all of it is checked.
    """
    try:
        raw = _decode_fields(data)
        fields = dict(_field_spans(data, raw))
        if _marks_in([bytes(raw[name]) for name in raw.keys() & model.HEAD_NAMES]) > (
            limits.HEAD_VALUES_MAX
        ):
            raise errors.InvalidMetadata(
                f"The metadata holds more than {limits.HEAD_VALUES_MAX} values beside its snapshots"
            )
        items = {
            name: _items(data, fields[name], name)
            for name in model.LIST_NAMES & raw.keys()
            if data[fields[name][0] : fields[name][0] + 1] == b"["
        }
        for name in model.HEAD_NAMES & raw.keys() - items.keys():
            _check_piece(name, bytes(raw[name]))
        table = model.decode(data)
        ids, spans = _snapshot_spans(data, fields.get("snapshots"))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise errors.InvalidMetadata(f"Cannot parse table metadata: {error}") from error
    if is_foreign:
        checks.check_table(table)
    return Contents(fields=fields, items=items, snapshot_ids=ids, snapshot_spans=spans)


def assemble(data: bytes, contents: Contents) -> model.TableMetadata:
    """Return the metadata in data, whose Contents `examine` returned. Raises InvalidMetadata."""
    raw = {
        name: msgspec.Raw(data[start:stop])
        for name, (start, stop) in contents.fields.items()
        if name not in contents.items and name != "snapshots"
    }
    items = {
        name: (data[start:stop] for start, stop in _pairs(spans))
        for name, spans in contents.items.items()
    }
    start, stop = contents.fields.get("snapshots", (0, 0))
    has_snapshots = data[start : start + 1] == b"["
    text = joining.joined([memoryview(data)[start:stop]]) if has_snapshots else b"[]"
    snapshots = model.Snapshots(text)
    snapshots.note_spans(_noted(contents))
    return model.decode_pieces(raw, items, snapshots)


def _marks_in(texts: Iterable[bytes]) -> int:
    return sum(text.count(mark) for text in texts for mark in _MARKS)


def _noted(contents: Contents) -> Iterator[Iterable[tuple[int, Span]]]:
    ids, spans = array.array("q"), array.array("q")
    ids.frombytes(contents.snapshot_ids)
    spans.frombytes(contents.snapshot_spans)
    for first in range(0, len(ids), SPANS_AT_ONCE):
        last = first + SPANS_AT_ONCE
        some = spans[2 * first : 2 * last]
        yield zip(ids[first:last], zip(some[::2], some[1::2], strict=True), strict=True)


def _pairs(spans: Sequence[int]) -> Iterator[Span]:
    return zip(spans[::2], spans[1::2], strict=True)


def _field_spans(data: bytes, raw: Mapping[str, msgspec.Raw]) -> Iterator[tuple[str, Span]]:
    position = data.index(b"{") + 1
    for _ in raw:
        key = _KEY.match(data, position)
        assert key is not None, "what was decoded has a name"
        name = _decode_name(key[1])
        text = bytes(raw[name])
        position = key.end() + len(text)
        if not data.startswith(text, key.end()):
            raise errors.InvalidMetadata(
                f"The metadata has the field {json_values.shown(name)} twice"
            )
        yield name, (key.end(), position)
    if _KEY.match(data, position) is not None:
        raise errors.InvalidMetadata("The metadata has a field twice")


def _items(data: bytes, span: Span, name: str) -> list[int]:
    """Return where the items of an array lie in data, as starts and stops in turn."""
    spans: list[int] = []
    position = span[0] + 1
    for item in _decode_items(memoryview(data)[span[0] : span[1]]):
        text = bytes(item)
        _check_piece(name, text)
        between = _BETWEEN.match(data, position)
        assert between is not None, "it matches nothing, too"
        position = between.end() + len(text)
        spans += (between.end(), position)
    return spans


def _snapshot_spans(data: bytes, span: Span | None) -> tuple[bytes, bytes]:
    if span is None or data[span[0] : span[0] + 1] != b"[":
        return b"", b""
    ids = model.snapshot_ids_in(memoryview(data)[span[0] : span[1]])
    if len(ids) > limits.SNAPSHOTS_MAX:
        raise errors.InvalidMetadata(f"The metadata has more than {limits.SNAPSHOTS_MAX} snapshots")
    if len(set(ids)) != len(ids):
        raise errors.InvalidMetadata("Two snapshots have the same id")
    if not all(-json_values.LONG_MAX - 1 <= each <= json_values.LONG_MAX for each in ids):
        raise errors.InvalidMetadata("A snapshot's id is no 64-bit number")
    spans = _items(data, span, "snapshots")
    relative = array.array("q", (each - span[0] for each in spans))
    return array.array("q", ids).tobytes(), relative.tobytes()


def _check_piece(name: str, text: bytes) -> None:
    """Raise InvalidMetadata if text takes too long to decode at once."""
    values_max = limits.PIECE_VALUES_MAX
    # Marks within texts are no values: but only where there are many marks is it worth looking.
    if are_many_values(text, values_max) and are_many_values(_TEXT.sub(b'""', text), values_max):
        raise errors.InvalidMetadata(
            f"A part of {name} holds more than {limits.PIECE_VALUES_MAX} values"
        )
