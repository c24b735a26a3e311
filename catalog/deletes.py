"""rule: which delete files apply to which data file.

A deletion vector replaces every position delete of its data file. Position deletes apply to files
of their own commit and older ones, equality deletes only to older ones; both apply within their
partition, except equality deletes of an unpartitioned spec, which apply to all. A spec whose fields
are all void is unpartitioned, as in the reference implementation.
Source: Iceberg spec, Scan Planning.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog.manifests import Content, DataFile, ManifestEntry

FILE_PATH_ID = 2_147_483_546
"""The field id of `file_path` in position delete files; its bounds name their data files."""
FILE_ID = 2_147_483_646
"""The field id of the metadata column `_file`, under which DuckDB 1.5 writes those bounds."""


PathBounds: TypeAlias = tuple[str | None, str | None]
"""The least and the greatest path, None if unknown."""

_NO_BOUNDS: Final[PathBounds] = (None, None)


def unpartitioned(specs: Iterable[Mapping[str, Any]]) -> frozenset[int]:
    """Return the ids of the specs whose equality deletes apply in every partition."""
    return frozenset(
        spec["spec-id"]
        for spec in specs
        if all(field["transform"].strip().lower() == "void" for field in spec["fields"])
    )


class DeleteIndex:
    """The delete files of a snapshot, by data file. Immutable once all are added."""

    __slots__ = (
        "_everywhere",
        "_of_file",
        "_of_partition",
        "_unpartitioned",
        "_vectors",
        "_within",
        "is_empty",
    )

    def __init__(
        self, entries: Iterable[ManifestEntry] = (), *, unpartitioned: Collection[int]
    ) -> None:
        """entries: live and inherited. unpartitioned: from the function of this name."""
        self._unpartitioned = unpartitioned
        self._vectors: dict[str, tuple[int, DataFile]] = {}
        self._of_file: dict[str, DeleteList] = {}
        self._of_partition: dict[Any, DeleteList] = {}
        self._everywhere = DeleteList()
        self._within: dict[Any, DeleteList] = {}
        self.is_empty = True
        self.add(entries)

    def add(self, entries: Iterable[ManifestEntry]) -> None:
        """Add more entries, live and inherited."""
        for entry in entries:
            self.is_empty = False
            self._add(entry.data_file, entry.sequence_number or 0)

    def _add(self, file: DataFile, sequence_number: int) -> None:
        if file.content == Content.EQUALITY_DELETES:
            if file.spec_id in self._unpartitioned:
                self._everywhere.add(sequence_number, file)
            else:
                self._within.setdefault(partition_key(file), DeleteList()).add(
                    sequence_number, file
                )
            return
        bounds = _NO_BOUNDS if file.referenced_data_file is not None else _path_bounds(file)
        path = file.referenced_data_file or _only_path(bounds)
        if file.is_deletion_vector and path is not None:
            previous = self._vectors.get(path)
            if previous is None or previous[0] < sequence_number:
                self._vectors[path] = (sequence_number, file)
        elif path is not None:
            self._of_file.setdefault(path, DeleteList()).add(sequence_number, file)
        else:
            self._of_partition.setdefault(partition_key(file), DeleteList()).add(
                sequence_number, file, bounds
            )

    def applying_to(self, file: DataFile, sequence_number: int) -> Applying:
        """Return the delete files that a reader of this data file must apply."""
        everywhere = self._everywhere.after(sequence_number + 1)
        within = None
        key = None
        if self._within or self._of_partition:
            key = partition_key(file)
        if key in self._within:
            within = self._within[key].after(sequence_number + 1)
        vector = self._vectors.get(file.file_path)
        if vector is not None and vector[0] >= sequence_number:
            return Applying(everywhere=everywhere, within=within, exact=(vector[1],))
        exact: tuple[DataFile, ...] = ()
        wide = None
        if file.file_path in self._of_file:
            tail = self._of_file[file.file_path].after(sequence_number)
            exact = () if tail is None else tuple(tail)
        if key in self._of_partition:
            wide = self._of_partition[key].after(sequence_number)
        applying = Applying(
            everywhere=everywhere, within=within, exact=exact, wide=wide, path=file.file_path
        )
        return applying or NONE


class DeleteList:
    """Delete files in order of their sequence numbers.

    bounds: of the paths of the data files that position deletes name; unpacking metrics for each
    data file anew would take long.
    """

    __slots__ = ("_compared", "bounds", "files", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.files: list[DataFile] = []
        self.bounds: list[PathBounds] = []
        self._compared: list[frozenset[int]] | None = None

    def add(self, sequence_number: int, file: DataFile, bounds: PathBounds = _NO_BOUNDS) -> None:
        at = bisect.bisect_right(self.numbers, sequence_number)
        self.numbers.insert(at, sequence_number)
        self.files.insert(at, file)
        self.bounds.insert(at, bounds)

    def after(self, sequence_number: int) -> Tail | None:
        """Return the files whose sequence number is this one or higher, None if there are none."""
        start = bisect.bisect_left(self.numbers, sequence_number)
        return Tail(of=self, start=start) if start < len(self.files) else None

    def compared(self, start: int) -> frozenset[int]:
        """Return the field ids that the equality deletes from start on compare."""
        if self._compared is None:
            ids: frozenset[int] = frozenset()
            collected = []
            for file in reversed(self.files):
                if not ids.issuperset(file.equality_ids or ()):
                    ids = ids.union(file.equality_ids or ())
                collected.append(ids)
            collected.reverse()
            self._compared = collected
        return self._compared[start]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """The files of a list from a position on: what data files of one age share. Never empty.

    Equal tails are of the same list, so that comparing them never looks at a file.
    """

    of: DeleteList
    start: int

    def __iter__(self) -> Iterator[DataFile]:
        files = self.of.files
        return (files[index] for index in range(self.start, len(files)))

    def __len__(self) -> int:
        return len(self.of.files) - self.start

    @property
    def compared(self) -> frozenset[int]:
        """The field ids that these equality deletes compare."""
        return self.of.compared(self.start)


@dataclass(frozen=True, kw_only=True, slots=True)
class Applying:
    """The delete files that a reader of one data file must apply.

    It takes the same room however many they are: data files share the lists. everywhere: equality
    deletes of unpartitioned specs. within: equality deletes of its partition. exact: the position
    deletes of this data file alone. wide: position deletes of its partition, which may name it
    unless their bounds say otherwise. path: of the data file.
    """

    everywhere: Tail | None = None
    within: Tail | None = None
    exact: tuple[DataFile, ...] = ()
    wide: Tail | None = None
    path: str = ""

    @property
    def equality(self) -> tuple[Tail, ...]:
        """The equality deletes."""
        return tuple(tail for tail in (self.everywhere, self.within) if tail is not None)

    @property
    def has_positions(self) -> bool:
        """Whether there may be position deletes or a deletion vector."""
        return bool(self.exact) or self.wide is not None

    @property
    def candidates(self) -> int:
        """How many delete files iterating looks at."""
        tails = (self.everywhere, self.within, self.wide)
        return len(self.exact) + sum(len(tail) for tail in tails if tail is not None)

    def __bool__(self) -> bool:
        return self.everywhere is not None or self.within is not None or self.has_positions

    def __iter__(self) -> Iterator[DataFile]:
        for tail in self.equality:
            yield from tail
        yield from self.exact
        if self.wide is not None:
            of = self.wide.of
            for index in range(self.wide.start, len(of.files)):
                lower, upper = of.bounds[index]
                if (lower is None or lower <= self.path) and (upper is None or self.path <= upper):
                    yield of.files[index]


NONE: Final = Applying()


class Needed:
    """The delete files that some data files need, each once. Mutable: data files are added.

    Costs what data files and delete files are together, not each with each.
    """

    def __init__(self) -> None:
        self._everywhere: dict[DeleteList, int] = {}
        self._within: dict[DeleteList, int] = {}
        self._exact: dict[tuple[str, int | None], DataFile] = {}
        self._within_numbers: dict[DeleteList, int] = {}
        self._wide: dict[DeleteList, int] = {}
        self._paths: dict[DeleteList, list[str]] = {}
        self._numbers: dict[DeleteList, int] = {}

    def add(self, applying: Applying) -> None:
        """Add what applies to one more data file."""
        if applying.everywhere is not None:
            _extend(self._everywhere, applying.everywhere)
        if applying.within is not None:
            _extend(self._within, applying.within)
            self._within_numbers.setdefault(applying.within.of, len(self._within))
        for file in applying.exact:
            self._exact[file.file_path, file.content_offset] = file
        if applying.wide is not None:
            tail = applying.wide
            _extend(self._wide, tail)
            self._paths.setdefault(tail.of, []).append(applying.path)
            self._numbers.setdefault(tail.of, len(self._numbers))

    def list_number(self, applying: Applying) -> int | None:
        """Return the number, among those added, of the list that a data file's `wide` is of."""
        return None if applying.wide is None else self._numbers[applying.wide.of]

    def equality_list_number(self, applying: Applying) -> int:
        """Return the number, among those added, of the list that a data file's `within` is of.

        0 if it has none.
        """
        return 0 if applying.within is None else self._within_numbers[applying.within.of]

    def equality(self) -> Iterator[EqualityDelete]:
        """Yield the equality deletes."""
        for of, start in self._everywhere.items():
            for index in range(start, len(of.files)):
                yield EqualityDelete(file=of.files[index], sequence_number=of.numbers[index])
        for of, start in self._within.items():
            for index in range(start, len(of.files)):
                yield EqualityDelete(
                    file=of.files[index],
                    list_number=self._within_numbers[of],
                    sequence_number=of.numbers[index],
                )

    def exact(self) -> Iterator[DataFile]:
        """Yield the position deletes and vectors of single data files."""
        yield from self._exact.values()

    def wide(self) -> Iterator[WideDelete]:
        """Yield the other position deletes whose bounds some data file's path is within."""
        for of, start in self._wide.items():
            paths = sorted(self._paths[of])
            number = self._numbers[of]
            for index in range(start, len(of.files)):
                lower, upper = of.bounds[index]
                first = 0 if lower is None else bisect.bisect_left(paths, lower)
                if first < len(paths) and (upper is None or paths[first] <= upper):
                    yield WideDelete(
                        file=of.files[index],
                        list_number=number,
                        sequence_number=of.numbers[index],
                    )

    def all(self) -> Iterator[DataFile]:
        """Yield every delete file."""
        for delete in self.equality():
            yield delete.file
        yield from self.exact()
        for each in self.wide():
            yield each.file


def _extend(starts: dict[DeleteList, int], tail: Tail) -> None:
    """Let the files of a list be needed from where tail starts on, or from before."""
    starts[tail.of] = min(tail.start, starts.get(tail.of, tail.start))


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualityDelete:
    """An equality delete file. It deletes from older data files: those of list_number, or all."""

    file: DataFile
    list_number: int | None = None
    sequence_number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WideDelete:
    """A position delete file that may name many data files: those of list_number, not newer."""

    file: DataFile
    list_number: int
    sequence_number: int


def only_data_file(file: DataFile) -> str | None:
    """Return the data file of a position delete file that has only one, else None."""
    return file.referenced_data_file or _only_path(_path_bounds(file))


def named_data_file(file: DataFile) -> str | None:
    """Return what `only_data_file` does, also by bounds that are written under `FILE_ID`."""
    return only_data_file(file) or _only_path(_path_bounds(file, FILE_ID))


def _only_path(bounds: PathBounds) -> str | None:
    """Return the one data file that a position delete file names, None if it may name more."""
    lower, upper = bounds
    # bounds may be truncated; equal bounds that are a whole path are that path
    if lower is None or lower != upper:
        return None
    return lower if lower.endswith(_DATA_SUFFIXES) else None


_DATA_SUFFIXES = (".parquet", ".avro", ".orc")


def _path_bounds(file: DataFile, field_id: int = FILE_PATH_ID) -> PathBounds:
    *_, lower_bounds, upper_bounds = file.metrics.unpacked()
    return _text((lower_bounds or {}).get(field_id)), _text((upper_bounds or {}).get(field_id))


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
