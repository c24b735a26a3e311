"""engine: runs queries in child processes, so that no query blocks the serving process.

An `EngineQuery` is text in the engine's own language, the relations that it may read, and limits.
Relations are directories of local Parquet files, or rows sent with the query: a child gets paths
and bytes, never the index. The child streams results as Arrow record batches or, with a `Write`,
writes them as Parquet files.

A child (`python -m sql.worker`) starts when it is first needed and runs one query at a time. It
spills to a folder of its own, which the server removes after the child has ended. A query ends
early by its deadline, by `cancel`, or when its batches are no longer read. The server then asks the
child to stop, and kills one that does not stop within `limits.STOP_GRACE_SECONDS`. A child that
plans a query for too long is killed at once, and one that grows beyond its bound ends by itself.
The serving process never imports the execution library: `sql.engine_datafusion` does, in the child
or, where a setting asks for it, behind `sql.engine_inline`.

With two children or more, one owner's queries never hold all of them, and another owner's waiting
query does not queue behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import socket
from collections import Counter, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from server import children
from sql import chunk_memory, chunk_sockets, confinement, frames, limits, outcomes
from storage import disk
from storage import errors as storage_errors

DecodePurpose: TypeAlias = Literal["decode", "infer"]
FaultCause = Literal[
    "plan",
    "value",
    "resources",
    "disk_full",
    "planning",
    "canceled",
    "timed_out",
    "busy",
    "crashed",
    "panicked",
    "internal",
]


NUMBER_LENGTH = 7
NAME_LENGTH = 3 * (NUMBER_LENGTH + 1) - 1 + len(".parquet")
"""Characters of a file's name in a group's directory: deletes are joined by it."""
LIST_FROM, AGE_FROM = 1, NUMBER_LENGTH + 2
"""Where in such a name, from 1, its list number and its age begin."""
NUMBER_FROM = 2 * (NUMBER_LENGTH + 1) + 1
"""Where in such a name, from 1, its own number begins."""

ROWS_OF_FILE = 1 << 40
"""A row's number is its file's number times this, plus its position in the file."""


def format_number(number: int) -> str:
    """Return a number as part of a file's name: these texts sort like their numbers."""
    assert 0 <= number < 10**NUMBER_LENGTH
    return f"{number:0{NUMBER_LENGTH}d}"


def file_name(number: int, *, list_number: int = 0, age: int = 0) -> str:
    """Return the name that the n-th file of a group has in its directory.

    list_number, age: by which equality deletes tell the group's files apart (`EqualityDeletes`).
    """
    name = "-".join(map(format_number, (list_number, age, number))) + ".parquet"
    assert len(name) == NAME_LENGTH
    return name


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanFile:
    """A data file whose rows position deletes may name.

    name: in the group's directory. list_number: of the delete files that may name it beside those
    of it alone; None if there are none. sequence_number: none older than it does.
    """

    name: str
    list_number: int | None = None
    sequence_number: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionDeletes:
    """Rows that position deletes remove, by file and position.

    path: a local copy of the delete file. form: "parquet" is a position delete file; "vector" a
    deletion vector, length bytes from offset on. location: of the only data file whose rows it
    deletes; a vector has one, and another file that names no row of it is damaged. Without one it
    deletes rows of the data files of list_number that are not newer than sequence_number.
    """

    path: str
    form: Literal["parquet", "vector"]
    location: str = ""
    list_number: int = 0
    sequence_number: int = 0
    offset: int = 0
    length: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualityDeleteFile:
    """A Parquet file of equality deletes.

    age: it deletes rows of data files of a lower age. list_number: of these, those of this number.
    """

    path: str
    list_number: int = 0
    age: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualityDeletes:
    """Rows that equality deletes remove because they equal a row of these files.

    columns: (column of the group's projection, field id in the delete files) to compare.
    compares_age: the data files' names tell their ages (`file_name`), and age decides; without it
    each file deletes rows of all the group's data files. compares_list: so do their list numbers.
    """

    files: tuple[EqualityDeleteFile, ...]
    columns: tuple[tuple[str, int], ...]
    compares_age: bool = False
    compares_list: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Files of one relation that are read in the same way.

    directory: an absolute path that holds nothing but the group's Parquet files, each with a name
    of NAME_LENGTH characters (`file_name`). schema: Arrow schema (IPC) in the files'
    own column names, all nullable. projection: (name, expression over the files' columns); it may
    end with columns that only deletes compare. An empty projection means the files as they are.
    data_files: by their locations, those that position deletes may name. row_column: the name of a
    column, beside the projection, that numbers the rows (`ROWS_OF_FILE`); empty for none.
    functions: names of Boathouse's own functions that the projection calls.
    """

    directory: str
    schema: bytes
    projection: tuple[tuple[str, str], ...] = ()
    data_files: Mapping[str, ScanFile] = field(default_factory=dict)
    position_deletes: tuple[PositionDeletes, ...] = ()
    equality_deletes: tuple[EqualityDeletes, ...] = ()
    row_column: str = ""
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    """The rows of one table name in the query's text.

    schema: Arrow schema (IPC) of the relation. Its rows are those of the groups, and of rows (an
    Arrow IPC stream); with neither it is empty. row_count: at most, as the files say; None if it
    is not known.
    """

    name: str
    schema: bytes
    groups: tuple[Group, ...] = ()
    rows: bytes | None = None
    row_count: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnConstraint:
    """A check on a column that is written. name: as messages show it.

    is_packed: its values are packed variants (`sql.variant_columns`).
    """

    name: str
    required: bool = False
    length_max: int | None = None
    is_packed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionField:
    """One field of a partition: transform of the column at an index.

    transform, source_type: as Iceberg's metadata spells them.
    """

    name: str
    column: int
    transform: str
    source_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """The Parquet files into which a query writes its rows, instead of returning them.

    schema: Arrow schema (IPC) of the files, field ids as metadata; the query's columns are cast to
    it by position. checks: one per column. offsets: the columns of TIMESTAMP_TZ whose offsets are
    the further columns of the schema, in order. Files are named part-<n>.parquet in directory.
    """

    directory: str
    schema: bytes
    checks: tuple[ColumnConstraint, ...]
    offsets: tuple[int, ...] = ()
    partition: tuple[PartitionField, ...] = ()
    file_size_bytes: int = 128 << 20
    compression: str = "zstd"


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFile:
    """A finished file. partition: an Arrow IPC stream of one row; empty without one.

    folder: of an unloaded file, the value of PARTITION BY; None for NULL.
    """

    path: str
    rows: int
    size_bytes: int
    partition: bytes = b""
    folder: str | None = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedFile:
    """A file of a stage. path: a local copy. name: as METADATA$FILENAME has it."""

    path: str
    name: str
    content_key: str = ""
    modified_at_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedRead:
    """Files of a stage that are decoded into Parquet files in directory (`sql.staged_files`).

    width: columns of delimited text; 0 for as many as the files have. checks_width: another number
    of fields is a fault. members: columns of Parquet that must exist, if with NULLs alone.
    documents: its columns are wanted as one document as well. purpose: decode the files, or find
    their columns. zone: in which a VARIANT shows its instants.
    """

    files: tuple[StagedFile, ...]
    format_type: str
    options: Mapping[str, Any]
    directory: str
    width: int = 0
    checks_width: bool = False
    members: tuple[str, ...] = ()
    documents: bool = False
    purpose: DecodePurpose = "decode"
    now_ms: int = 0
    zone: str = "UTC"


@dataclass(frozen=True, kw_only=True, slots=True)
class UnloadOrder:
    """The files of a stage into which a query writes its rows (`sql.unload_files`).

    form: csv and json rows are text already. names: of the columns. field, record, quote, escape:
    of csv, "" for none; null: what stands for NULL; quoted: whether a column's values stand in
    quotes. Files are named part-<n> in directory. is_partitioned: rows come in the order of one
    more column, the last, which is not written; each of its values has files of its own.
    """

    directory: str
    form: Literal["csv", "json", "parquet"]
    names: tuple[str, ...]
    compression: str
    single: bool = False
    file_size_bytes: int = 16 << 20
    header: bool = False
    field: str = ","
    record: str = "\n"
    quote: str = ""
    escape: str = ""
    null: str = ""
    quoted: tuple[bool, ...] = ()
    is_partitioned: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryBounds:
    """Bounds of a query. seconds: from its start to the last batch; 0 means no bound."""

    seconds: float = 0.0
    memory_bytes: int = 1 << 30
    rows_max: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How a query is computed. partitions: threads of the plan; 0 means one per core."""

    timezone: str = "UTC"
    partitions: int = 0
    batch_rows: int = 8192
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineQuery:
    """One statement for the engine.

    functions: names of Boathouse's own functions that the text calls. purpose: run the text; plan
    it and return the schema (describe); return the lines of its plans (explain); or,
    without text, read the footers of the Parquet files at paths (columns `path` and `schema`, an
    Arrow schema as IPC); or decode the files of staged (one row `report`). owner: the name of the
    principal whose share of the children it uses.
    is_aggregate: the rows of its result, or most rows that it reads, are grouped, so that it reads
    many. warehouse: of the session.
    variants: indexes of result columns that hold VARIANTs as the engine has them (`sql.variants`);
    the child shows them as clients get them, with json_indent blanks before each element.
    keeps_nested: nested values of the result stay so, for
    a query of them; clients get JSON text. skipped_rules: rules of the engine's optimizer that the
    query is planned without.
    """

    text: str = ""
    query_id: str = ""
    owner: str = ""
    relations: tuple[Relation, ...] = ()
    functions: tuple[str, ...] = ()
    settings: Settings = Settings()
    limits: QueryBounds = QueryBounds()
    purpose: Literal["run", "describe", "explain", "footers", "staged"] = "run"
    write: Write | None = None
    staged: StagedRead | None = None
    unload: UnloadOrder | None = None
    paths: tuple[str, ...] = ()
    variants: tuple[int, ...] = ()
    json_indent: int = 2
    keeps_nested: bool = False
    is_aggregate: bool = False
    warehouse: str = ""
    skipped_rules: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryCounts:
    """How many queries of each warehouse an engine runs at one moment, and how many wait for a
    child. waiting_ids: the ids of the statements whose query waits."""

    running: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    waiting_ids: frozenset[str] = frozenset()


class CountingEngine(Protocol):
    """An engine of any sort, as something that counts its queries."""

    def counts(self) -> QueryCounts:
        """Return which queries run now, and which wait."""


def together(engines: Iterable[CountingEngine]) -> QueryCounts:
    """Return the counts of several engines."""
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    waiting_ids: set[str] = set()
    for counts in (each.counts() for each in engines):
        running.update(counts.running)
        waiting.update(counts.waiting)
        waiting_ids |= counts.waiting_ids
    return QueryCounts(running=running, waiting=waiting, waiting_ids=frozenset(waiting_ids))


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The result of a query after its last batch: its rows, and the files that it wrote."""

    rows: int = 0
    files: tuple[WrittenFile, ...] = ()


OFFSET: Final = "offset"
"""Code of the fault of a value whose offset the files of a Write have no column for."""


class EngineFault(Exception):
    """A query failed. code: Snowflake's error number if the engine has one, else ""."""

    def __init__(self, cause: FaultCause, message: str, code: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.code = code


class Results(Protocol):
    """A running query. The caller reads all batches or closes it, to free its child."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def finished(self) -> Finished:
        """The result of the query; available after the last batch."""

    def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield the batches, once; raises EngineFault."""

    def encode(self, columns: Sequence[outcomes.Column]) -> None:
        """Let the engine encode what is not among the result's first rows, for `row_groups`."""

    def row_groups(self) -> AsyncIterator[outcomes.RowGroup]:
        """Yield the batches, and then chunks if the engine encodes; instead of `batches`."""

    async def close(self) -> None:
        """End the query if it still runs. Idempotent."""


class Engine(Protocol):
    """Runs queries, in children or in this process."""

    async def run(self, query: EngineQuery) -> Results: ...

    async def cancel(self, query_id: str) -> bool:
        """End the query of that id; return False if it does not run."""

    def counts(self) -> QueryCounts:
        """Return which queries run now, and which wait."""

    def start_ahead(self) -> None:
        """Start in the background what the first query would have to wait for."""

    async def close(self) -> None: ...


class SentQuery(Protocol):
    """What a child is sent, packed."""

    @property
    def query_id(self) -> str: ...

    @property
    def owner(self) -> str: ...

    @property
    def warehouse(self) -> str: ...

    @property
    def limits(self) -> QueryBounds: ...


StartChild: TypeAlias = Callable[[Path], Awaitable[children.Child]]
"""Starts a child that spills into a folder."""


class WorkerEngine:
    """A pool of children. Each runs one query at a time.

    memory_bytes: of the memory pool of the largest query; a child's bound follows from it.
    start: starts another sort of child, whose memory is not bounded here. idle_seconds: a child
    ends when it has had no query for as long; 0 for never.
    """

    def __init__(
        self,
        *,
        workers: int,
        spill_directory: Path,
        disk: disk.Disk,
        memory_bytes: int = 2 << 30,
        planning_seconds_max: float = limits.PLANNING_SECONDS_MAX,
        start: StartChild | None = None,
        idle_seconds: float = 0,
    ) -> None:
        assert workers > 0
        self._turns = Turns(workers)
        self._queue = Queue()
        self._growth_bytes = limits.worker_bytes_max(memory_bytes)
        self._start = start or self._start_worker
        self._idle_seconds = idle_seconds
        self._idle_timer: asyncio.TimerHandle | None = None
        self._planning_seconds_max = planning_seconds_max
        self._spill_directory = spill_directory
        self._disk = disk
        self._started = 0
        self._endings: set[asyncio.Task[None]] = set()
        self._chunk_memory = chunk_memory.Pool(free_bytes_max=limits.RESULTS_FREE_BYTES_MAX)
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._running: dict[str, _ChildResults] = {}
        self._ahead: asyncio.Task[None] | None = None
        self._starts_under_way = 0
        self._closed = False
        self._log = logging.getLogger("boathouse.sql.engine")

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The process ids of the running children."""
        return tuple(child.process_id for child in self._children)

    async def run(self, query: SentQuery) -> Results:
        """Start query in a child; raises EngineFault if it cannot be planned."""
        with self._queue.waits(query):
            await self._turns.take(query.owner)
        self._queue.begin(query)
        try:
            child = await self._take_child()
        except BaseException:
            self._queue.end(query)
            self._turns.give_back(query.owner)
            raise
        results = _ChildResults(
            child=child,
            query=query,
            release=self._release,
            planning_seconds_max=self._planning_seconds_max,
        )
        if query.query_id:
            self._running[query.query_id] = results
        await results.start()
        return results

    async def cancel(self, query_id: str) -> bool:
        """Stop the child that runs query_id; return False if none does."""
        results = self._running.get(query_id)
        if results is None:
            return False
        results.stop("canceled")
        return True

    def counts(self) -> QueryCounts:
        """Return which queries run now, and which wait."""
        return self._queue.counts()

    def start_ahead(self) -> None:
        """Start a child in the background where there is none; the first query takes it."""
        is_there = self._starts_under_way > 0 or any(child.is_alive for child in self._children)
        if is_there or self._ahead is not None or self._closed:
            return
        self._ahead = asyncio.ensure_future(self._start_first())

    async def close(self) -> None:
        """End all children."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._ahead is not None:
            await asyncio.wait([self._ahead])
        children, self._idle = list(self._children), []
        self._children.clear()
        await self._all(child.close() for child in children)
        await self._all(self._endings)

    async def _all(self, steps: Iterable[Awaitable[None]]) -> None:
        """Run all steps of closing, although one of them fails."""
        for outcome in await asyncio.gather(*steps, return_exceptions=True):
            if isinstance(outcome, BaseException):
                self._log.warning("a child was not closed in order: %r", outcome)

    async def _start_first(self) -> None:
        try:
            self._idle.append(await self._start_child())
        except (EngineFault, OSError, storage_errors.StorageError) as error:
            if not self._closed:  # the next query starts its own child and reports its fault
                self._log.warning("a child could not be started ahead: %r", error)
        else:
            self._end_idle_later()
        finally:
            self._ahead = None

    async def _take_child(self) -> _Child:
        if not self._idle and self._ahead is not None:
            await asyncio.wait([self._ahead])
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
            self._children.discard(child)
        return await self._start_child()

    async def _start_child(self) -> _Child:
        self._check_open()
        self._starts_under_way += 1
        try:
            return await self._new_child()
        finally:
            self._starts_under_way -= 1

    async def _new_child(self) -> _Child:
        self._started += 1
        folder = self._spill_directory / f"sql-{self._started}"
        try:
            folder = await asyncio.to_thread(self._spill_folder, folder)
            self._check_open()
            child = _Child(await self._start(folder), self._chunk_memory)
            if self._closed:
                await child.close()
            self._check_open()
        except BaseException:
            await asyncio.to_thread(self._disk.remove_tree, folder)
            raise
        self._children.add(child)
        ending = asyncio.create_task(self._clear_up(child, folder))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return child

    async def _start_worker(self, folder: Path) -> children.Child:
        return await children.start(
            "sql.worker",
            str(folder),
            str(self._growth_bytes),
            buffer_bytes=frames.BUFFER_BYTES,
            has_bulk=True,
            TOKIO_WORKER_THREADS=str(os.cpu_count() or 2),
        )

    def _spill_folder(self, folder: Path) -> Path:
        """Create a child's folder; on a full disk elsewhere, so that queries still run."""
        try:
            self._disk.make_folder(folder)
        except storage_errors.DiskFull:
            return self._disk.spare_folder()
        return folder

    def _check_open(self) -> None:
        if self._closed:
            raise EngineFault("canceled", "the engine is closed")

    async def _clear_up(self, child: _Child, folder: Path) -> None:
        """Remove a child's folder with its spilled files, once the child has ended."""
        await child.wait()
        try:
            await asyncio.to_thread(self._disk.remove_tree, folder)
        except OSError as error:
            self._log.warning("folder %s could not be removed: %s", folder.name, error)

    def _release(self, results: _ChildResults) -> None:
        if self._running.get(results.query.query_id) is results:
            del self._running[results.query.query_id]
        if results.child.is_alive and not self._closed:
            self._idle.append(results.child)
            self._end_idle_later()
        else:
            self._children.discard(results.child)
        self._queue.end(results.query)
        self._turns.give_back(results.query.owner)

    def _end_idle_later(self) -> None:
        """End the idle children when none of them has had a query for a while."""
        if not self._idle_seconds:
            return
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        self._chunk_memory.clear()
        idle, self._idle = self._idle, []
        for child in idle:
            self._children.discard(child)
            ending = asyncio.ensure_future(child.close())
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)


class Queue:
    """Counts the queries of an engine that run and those that wait. Mutable."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._waiting: list[SentQuery] = []

    @contextlib.contextmanager
    def waits(self, query: SentQuery) -> Iterator[None]:
        """Count a query as one that waits."""
        self._waiting.append(query)
        try:
            yield
        finally:
            self._waiting.remove(query)

    def begin(self, query: SentQuery) -> None:
        """Count a query as one that runs."""
        self._running[query.warehouse] += 1

    def end(self, query: SentQuery) -> None:
        """Count a query no longer that ran."""
        self._running[query.warehouse] -= 1
        if not self._running[query.warehouse]:  # a client may name any warehouse
            del self._running[query.warehouse]

    def counts(self) -> QueryCounts:
        """Return the counts of now."""
        return QueryCounts(
            running=dict(self._running),
            waiting=Counter(query.warehouse for query in self._waiting),
            waiting_ids=frozenset(each.query_id for each in self._waiting if each.query_id),
        )


class Turns:
    """Shares children between owners; queries wait for a turn. Mutable.

    One owner has at most all turns but one, so that another owner's query gets one; a single turn
    is not reserved. Waiting queries are served in order of arrival, without those of an owner that
    has its maximum.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._of_one_max = max(1, count - 1)
        self._taken: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    async def take(self, owner: str) -> None:
        """Return when owner has a turn; raises EngineFault if too many queries wait."""
        if self._may_take(owner):
            self._count(owner)
            return
        of_one = sum(waiting == owner for waiting, _ in self._waiting)
        for count, most in (
            (len(self._waiting), limits.QUERIES_WAITING_MAX),
            (of_one, limits.QUERIES_WAITING_OF_ONE_MAX),
        ):
            if count >= most:
                raise EngineFault("busy", f"more than {most} queries wait for an engine")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(owner)
            else:
                self._waiting.remove((owner, turn))
            raise

    def give_back(self, owner: str) -> None:
        """Return a turn, and give it to the next waiting query."""
        self._free += 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        for waiting, turn in self._waiting:
            if self._may_take(waiting):
                self._waiting.remove((waiting, turn))
                self._count(waiting)
                turn.set_result(None)
                return

    def _may_take(self, owner: str) -> bool:
        return self._free > 0 and self._taken[owner] < self._of_one_max

    def _count(self, owner: str) -> None:
        self._free -= 1
        self._taken[owner] += 1


Payload: TypeAlias = bytes | memoryview | outcomes.EncodedRows


class _Child:
    """A child process and the sockets to it."""

    def __init__(self, child: children.Child, pool: chunk_memory.Pool) -> None:
        self._chunk_memory = pool
        self._process = child.process
        self._writer = child.writer
        self._bulk = child.bulk
        self._incoming = frames.Incoming(child.reader)
        self._arriving: asyncio.Future[outcomes.EncodedRows] | None = None
        self.broken = False

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return not self.broken and self._process.returncode is None and not self._has_hung_up()

    def _has_hung_up(self) -> bool:
        # The socket closes at once, but asyncio reports the end of the process some turns later. A
        # query that is sent in between would fail although it did not end the process.
        descriptor = self._writer.get_extra_info("socket").fileno()
        if descriptor < 0:
            return True
        poll = select.poll()
        poll.register(descriptor, 0)  # poll always reports POLLHUP and POLLERR
        return bool(poll.poll(0))

    async def send(self, frame_type: frames.FrameType, payload: bytes) -> None:
        self._writer.writelines(frames.encode(frame_type, payload))
        await self._writer.drain()

    async def next(self) -> tuple[frames.FrameType, Payload]:
        """Return the next frame, a chunk with its bytes. Cancelling this loses no frame's end."""
        if self._arriving is None:
            frame_type, payload = await self._incoming.next()
            if frame_type is not frames.FrameType.CHUNK:
                return frame_type, payload
            self._arriving = asyncio.ensure_future(asyncio.to_thread(self._chunk, payload))
        try:
            return frames.FrameType.CHUNK, await asyncio.shield(self._arriving)
        finally:
            if self._arriving.done():
                self._arriving = None

    def _chunk(self, payload: bytes | memoryview) -> outcomes.EncodedRows:
        assert self._bulk is not None
        rows, size_bytes = msgspec.msgpack.decode(payload, type=tuple[int, int])
        assert size_bytes <= frames.PAYLOAD_BYTES_MAX
        data = chunk_sockets.receive(self._bulk, size_bytes, self._chunk_memory)
        return outcomes.EncodedRows(rows=rows, data=data)

    def ask_to_encode(self, columns: Sequence[outcomes.Column]) -> None:
        """Tell the child how to encode the rows of its query, if it can send chunks.

        Without columns it goes on with batches, and does not wait to be told.
        """
        if self._bulk is not None and self.is_alive:
            payload = msgspec.msgpack.encode(columns)
            self._writer.writelines(frames.encode(frames.FrameType.COLUMNS, payload))

    def ask_to_stop(self) -> None:
        if self.is_alive:
            self._writer.writelines(frames.encode(frames.FrameType.CANCEL, b""))

    def kill(self) -> None:
        self.broken = True
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)

    async def wait(self) -> None:
        """Return when the process has ended, and no thread receives from it."""
        await self._process.wait()
        if self._arriving is not None:
            # Once closed, the descriptor could be another connection's when the thread reads it.
            await asyncio.wait([self._arriving])
        if self._bulk is not None:
            self._bulk.close()

    async def death(self) -> EngineFault:
        """Return why the process ended, by its exit code; kill it if it still runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.DEATH_SECONDS_MAX):
                await self._process.wait()
        code = self._process.returncode
        self.kill()
        if code in OUT_OF_MEMORY:
            return EngineFault("resources", "not enough memory for this query")
        if code in OUT_OF_STACK:
            return EngineFault("resources", "the statement is nested too deeply for the engine")
        return EngineFault("crashed", "the engine's process ended")

    async def close(self) -> None:
        # A child ends by itself when its sockets close; one that sends a chunk reads no frame.
        self.broken = True
        self._writer.close()
        if self._bulk is not None:
            with contextlib.suppress(OSError):  # it has ended already
                self._bulk.shutdown(socket.SHUT_RDWR)
        try:
            async with asyncio.timeout(limits.STOP_GRACE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()


OUT_OF_MEMORY = (confinement.MEMORY_EXIT_CODE, -signal.SIGABRT)
"""Exit codes of a child beyond its memory bound: its own check, or a failed allocation."""

OUT_OF_STACK = (-signal.SIGSEGV, -signal.SIGBUS)


class _ChildResults:
    """A query in a child, from its first frame to its last."""

    def __init__(
        self,
        *,
        child: _Child,
        query: SentQuery,
        release: Callable[[_ChildResults], None],
        planning_seconds_max: float,
    ) -> None:
        self.child = child
        self.query = query
        self._release = release
        self._planning_seconds_max = planning_seconds_max
        self._schema: pa.Schema | None = None
        self._columns: Sequence[outcomes.Column] = ()
        self._finished: Finished | None = None
        self._stopped: FaultCause | None = None
        self._over = False
        self._reading = False
        self._ended = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def schema(self) -> pa.Schema:
        assert self._schema is not None
        return self._schema

    @property
    def finished(self) -> Finished:
        assert self._finished is not None, "take all batches first"
        return self._finished

    async def start(self) -> None:
        if self.query.limits.seconds > 0:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(self.query.limits.seconds, self.stop, "timed_out"))
        try:
            await self._send()
            planning = asyncio.get_running_loop().call_later(
                self._planning_seconds_max, self._stop_planning
            )
            try:
                frame_type, payload = await self._receive()
            finally:
                planning.cancel()
            assert frame_type is frames.FrameType.SCHEMA
            assert isinstance(payload, bytes | memoryview)
            self._schema = pa.ipc.read_schema(pa.py_buffer(payload))
        except BaseException:
            await self.close()
            raise

    async def _send(self) -> None:
        try:
            await self.child.send(frames.FrameType.QUERY, msgspec.msgpack.encode(self.query))
        except ConnectionError:
            raise await self._crashed() from None

    async def _crashed(self) -> EngineFault:
        self.child.broken = True
        fault = await self.child.death()
        self._end()
        return self._fault(fault)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        async with contextlib.aclosing(self.row_groups()) as groups:
            async for group in groups:
                assert isinstance(group, pa.RecordBatch), "without `encode` there are no chunks"
                yield group

    def encode(self, columns: Sequence[outcomes.Column]) -> None:
        self._columns = columns

    async def row_groups(self) -> AsyncGenerator[outcomes.RowGroup, None]:
        rows = 0
        try:
            while True:
                frame_type, payload = await self._receive()
                if isinstance(payload, outcomes.EncodedRows):
                    yield payload
                    continue
                if frame_type is frames.FrameType.DONE:
                    self._finished = msgspec.msgpack.decode(payload, type=Finished)
                    self._end()
                    return
                assert frame_type is frames.FrameType.BATCH
                batch = pa.ipc.read_record_batch(pa.py_buffer(payload), self.schema)
                rows += batch.num_rows
                if rows > limits.ENCODED_ROWS_MIN >= rows - batch.num_rows:
                    self.child.ask_to_encode(self._columns)
                yield batch
        finally:
            await self.close()

    def _stop_planning(self) -> None:
        # A child that plans a query reads no frames, so it is killed without a request to stop.
        if self._stopped is None:
            self._stopped = "planning"
        self.child.kill()

    def stop(self, reason: FaultCause) -> None:
        """Ask the child to stop; kill it if it does not."""
        if self._over or self._stopped is not None:
            return
        self._stopped = reason
        self.child.ask_to_stop()
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(limits.STOP_GRACE_SECONDS, self.child.kill))

    async def close(self) -> None:
        if self._over:
            return
        self.stop("canceled")
        # `_drain` reads and drops the frames in flight until the child reports that it stopped. It
        # runs as a task of its own, because the caller may be cancelled.
        await asyncio.shield(asyncio.ensure_future(self._drain()))

    async def _drain(self) -> None:
        while not self._over:
            if self._reading:  # another task waits for the next frame and will see the end
                await self._ended.wait()
                return
            try:
                frame_type, _ = await self._receive()
            except EngineFault:
                return
            if frame_type is frames.FrameType.DONE:
                self._end()

    async def _receive(self) -> tuple[frames.FrameType, Payload]:
        self._reading = True
        try:
            frame_type, payload = await self.child.next()
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._crashed() from None
        finally:
            self._reading = False
        if frame_type is frames.FrameType.FAULT:
            assert isinstance(payload, bytes | memoryview)
            self._end()
            raise self._fault(EngineFault(*msgspec.msgpack.decode(payload)))
        return frame_type, payload

    def _fault(self, fault: EngineFault) -> EngineFault:
        if self._stopped == "timed_out":
            return EngineFault("timed_out", f"{self.query.limits.seconds:g}")
        if self._stopped == "planning":
            seconds = f"{self._planning_seconds_max:g}"
            return EngineFault("planning", f"planning took longer than {seconds} seconds")
        if self._stopped is not None:
            return EngineFault(self._stopped, "canceled")
        return fault

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._ended.set()
        for timer in self._timers:
            timer.cancel()
        self._release(self)


def quoted(name: str) -> str:
    """Return name as a quoted identifier of the engine's language."""
    return '"' + name.replace('"', '""') + '"'


async def collect(results: Results) -> tuple[pa.Table, Finished]:
    """Return all rows of results; for small results."""
    batches: Sequence[Any] = [batch async for batch in results.batches()]
    return pa.Table.from_batches(batches, schema=results.schema), results.finished
