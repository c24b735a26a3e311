"""rule: files of a scan as JSON, as clients of scan planning read them.

Partition values are in the JSON single-value form of the table specification. Bounds of columns are
the hexadecimal text of their binary form, which is what the reference implementation reads and
writes. A float that JSON cannot express is text.
Source: Iceberg REST catalog specification, FileScanTask, ContentFile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from catalog import datatypes, deletes, expressions, manifests, transforms, values
from catalog.values import Value

if TYPE_CHECKING:
    from catalog import scans

DELETES_PER_FILE_MAX: Final = 10_000
"""Delete files that one task may name."""
COMPARISON_COST_BYTES: Final = 16
"""The cost of comparing a delete file with a data file, in bytes that are encoded."""

_CONTENTS: Final = {
    manifests.Content.DATA: "data",
    manifests.Content.POSITION_DELETES: "position-deletes",
    manifests.Content.EQUALITY_DELETES: "equality-deletes",
}
_COUNTS: Final = ("column-sizes", "value-counts", "null-value-counts", "nan-value-counts")
_BOUNDS: Final = ("lower-bounds", "upper-bounds")


class TooManyDeletes(ValueError):
    """A data file has more delete files than a task may name."""


class TaskEncoder:
    """Encodes the tasks of one answer. Mutable: it collects them.

    stats_fields: ids of the columns whose metrics are sent. size_bytes: of all that was added.
    work_bytes: the work for it: bytes encoded, metrics read, delete files compared.
    """

    def __init__(
        self,
        *,
        residuals: expressions.Residuals,
        partition_specs: Iterable[Mapping[str, Any]],
        schema: Mapping[str, Any],
        stats_fields: Collection[int],
    ) -> None:
        self._residuals = residuals
        partitioned = [spec for spec in partition_specs if spec["fields"]]
        columns = datatypes.columns(schema) if partitioned else {}
        self._partition_types = {
            spec["spec-id"]: partition_types(spec, columns) for spec in partitioned
        }
        self._stats_fields = sorted(stats_fields)
        self._tasks: list[bytes] = []
        self._deletes: list[bytes] = []
        self._numbers: dict[tuple[str, int | None], int] = {}
        self.size_bytes = 0
        self.work_bytes = 0

    @property
    def tasks(self) -> int:
        """How many tasks were added."""
        return len(self._tasks)

    def add(self, task: scans.FileTask) -> None:
        """Add a task, and its delete files. Raises TooManyDeletes."""
        described: dict[str, Any] = {
            "data-file": self._content_file(task.data_file, number=task.sequence_number)
        }
        references = self._references(task.deletes)
        if references:
            described["delete-file-references"] = references
        described["residual-filter"] = self._residuals.of(task.data_file)
        self._tasks.append(self._measured(described))

    def encode(self) -> bytes:
        """Return the members of an answer, without braces."""
        parts = [b'"file-scan-tasks":[', b",".join(self._tasks), b"]"]
        if self._deletes:
            parts += [b',"delete-files":[', b",".join(self._deletes), b"]"]
        return b"".join(parts)

    def _references(self, applying: deletes.Applying) -> list[int]:
        """Return the positions of a task's delete files in the answer's list, which they join."""
        references: list[int] = []
        self.work_bytes += COMPARISON_COST_BYTES * applying.candidates
        for file in applying:
            if len(references) == DELETES_PER_FILE_MAX:
                raise TooManyDeletes(
                    f"A data file with more than {DELETES_PER_FILE_MAX} delete files is not"
                    " planned; rewrite them first"
                )
            key = (file.file_path, file.content_offset)
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._deletes)
                self._deletes.append(self._measured(self._content_file(file)))
            references.append(number)
        return references

    def _measured(self, described: Mapping[str, Any]) -> bytes:
        data = msgspec.json.encode(described)
        self.size_bytes += len(data) + 1
        self.work_bytes += len(data)
        return data

    def _content_file(
        self, file: manifests.DataFile, *, number: int | None = None
    ) -> dict[str, Any]:
        """Return a data or delete file. number: a data file's sequence number."""
        types = self._partition_types.get(file.spec_id, ())
        described: dict[str, Any] = {
            "spec-id": file.spec_id,
            "content": _CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.lower(),
            "partition": [
                value_to_json(type_, value)
                for type_, value in zip(types, file.partition, strict=False)
            ],
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
        }
        if self._stats_fields and file.content == manifests.Content.DATA:
            self.work_bytes += file.metrics.packed_bytes
            described.update(_stats(file.metrics, self._stats_fields))
        optional = {
            "key-metadata": None if file.key_metadata is None else file.key_metadata.hex().upper(),
            "split-offsets": file.split_offsets,
            "equality-ids": file.equality_ids,
            "sort-order-id": file.sort_order_id,
            "first-row-id": file.first_row_id,
            "data-sequence-number": None if file.first_row_id is None else number,
            "referenced-data-file": file.referenced_data_file,
            "content-offset": file.content_offset,
            "content-size-in-bytes": file.content_size_in_bytes,
        }
        described.update((name, each) for name, each in optional.items() if each is not None)
        return described


def partition_types(
    spec: Mapping[str, Any], columns: Mapping[int, datatypes.NestedField]
) -> tuple[Any, ...]:
    """Return the types of a spec's partition values, None where the source column is gone."""
    types: list[Any] = []
    for field in spec["fields"]:
        sources = field.get("source-ids") or [field.get("source-id")]
        source = columns.get(sources[0])
        try:
            transform = transforms.parse(field["transform"])
        except transforms.InvalidTransform:
            types.append(None)
            continue
        types.append(None if source is None else transforms.result_type(transform, source.type))
    return tuple(types)


def value_to_json(type_: Any, value: Value | None) -> Any:
    """Return a partition value as JSON; null if its type is not known any more."""
    if type_ is None or value is None:
        return None
    try:
        return values.to_json(type_, value)
    except values.InvalidValue:
        return _float_text(value) if isinstance(value, float) else value


def _float_text(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _stats(metrics: manifests.Metrics, field_ids: Sequence[int]) -> dict[str, Any]:
    maps = metrics.unpacked()
    described: dict[str, Any] = {}
    for name, by_field in zip((*_COUNTS, *_BOUNDS), maps, strict=True):
        if by_field is None:
            continue
        keys = [field_id for field_id in field_ids if field_id in by_field]
        listed = [by_field[field_id] for field_id in keys]
        if name in _BOUNDS:
            listed = [bound.hex().upper() for bound in listed]
        described[name] = {"keys": keys, "values": listed}
    return described
