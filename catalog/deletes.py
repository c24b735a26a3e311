"""rule: which delete files apply to which data file.

A deletion vector replaces every position delete of its data file. Position deletes apply to files
of their own commit and older ones, equality deletes only to older ones; both apply within their
partition, except equality deletes of an unpartitioned spec, which apply to all.
Source: Iceberg spec, Scan Planning.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Collection, Iterable
from typing import Any

from catalog.manifests import Content, DataFile, ManifestEntry

FILE_PATH_ID = 2_147_483_546
"""The field id of `file_path` in position delete files; its bounds name their data files."""


class DeleteIndex:
    """The delete files of a snapshot, by data file. Immutable once built."""

    __slots__ = (
        "_everywhere",
        "_of_file",
        "_of_partition",
        "_vectors",
        "_within",
        "is_empty",
    )

    def __init__(self, entries: Iterable[ManifestEntry], *, unpartitioned: Collection[int]) -> None:
        """entries: live and inherited. unpartitioned: ids of specs without fields."""
        self._vectors: dict[str, tuple[int, DataFile]] = {}
        self._of_file: dict[str, _BySequence] = {}
        self._of_partition: dict[Any, _BySequence] = {}
        self._everywhere = _BySequence()
        self._within: dict[Any, _BySequence] = {}
        self.is_empty = True
        for entry in entries:
            self.is_empty = False
            self._add(entry.data_file, entry.sequence_number or 0, unpartitioned)

    def _add(self, file: DataFile, sequence_number: int, unpartitioned: Collection[int]) -> None:
        if file.content == Content.EQUALITY_DELETES:
            if file.spec_id in unpartitioned:
                self._everywhere.add(sequence_number, file)
            else:
                self._within.setdefault(partition_key(file), _BySequence()).add(
                    sequence_number, file
                )
            return
        path = only_data_file(file)
        if file.is_deletion_vector and path is not None:
            previous = self._vectors.get(path)
            if previous is None or previous[0] < sequence_number:
                self._vectors[path] = (sequence_number, file)
        elif path is not None:
            self._of_file.setdefault(path, _BySequence()).add(sequence_number, file)
        else:
            self._of_partition.setdefault(partition_key(file), _BySequence()).add(
                sequence_number, file
            )

    def applying_to(self, file: DataFile, sequence_number: int) -> tuple[DataFile, ...]:
        """Return the delete files that a reader of this data file must apply."""
        applying = self._everywhere.after(sequence_number + 1)
        key = None
        if self._within or self._of_partition:
            key = partition_key(file)
        if key in self._within:
            applying += self._within[key].after(sequence_number + 1)
        vector = self._vectors.get(file.file_path)
        if vector is not None and vector[0] >= sequence_number:
            return (*applying, vector[1])
        if file.file_path in self._of_file:
            applying += self._of_file[file.file_path].after(sequence_number)
        if key in self._of_partition:
            candidates = self._of_partition[key].after(sequence_number)
            applying += [one for one in candidates if _may_name(one, file.file_path)]
        return tuple(applying)


class _BySequence:
    """Files in order of their sequence numbers."""

    __slots__ = ("_files", "_numbers")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._files: list[DataFile] = []

    def add(self, sequence_number: int, file: DataFile) -> None:
        at = bisect.bisect_right(self._numbers, sequence_number)
        self._numbers.insert(at, sequence_number)
        self._files.insert(at, file)

    def after(self, sequence_number: int) -> list[DataFile]:
        """Return the files whose sequence number is this one or higher."""
        return self._files[bisect.bisect_left(self._numbers, sequence_number) :]


def only_data_file(file: DataFile) -> str | None:
    """Return the data file of a position delete file that has only one, else None."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower, upper = _path_bounds(file)
    # bounds may be truncated; equal bounds that are a whole path are that path
    if lower is None or lower != upper:
        return None
    return lower if lower.endswith(_DATA_SUFFIXES) else None


_DATA_SUFFIXES = (".parquet", ".avro", ".orc")


def _may_name(file: DataFile, path: str) -> bool:
    lower, upper = _path_bounds(file)
    return (lower is None or lower <= path) and (upper is None or path <= upper)


def _path_bounds(file: DataFile) -> tuple[str | None, str | None]:
    metrics = file.metrics
    return (
        _text((metrics.lower_bounds or {}).get(FILE_PATH_ID)),
        _text((metrics.upper_bounds or {}).get(FILE_PATH_ID)),
    )


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def partition_key(file: DataFile) -> Any:
    """Return a key that is equal for files of one partition: spec and values, floats by bits."""
    return (file.spec_id, tuple([_comparable(value) for value in file.partition]))


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value
