"""engine: queries of a server's SQL warehouse: Spark SQL in, Arrow batches out.

Started by the server as `python -m pipeline.warehouse FD FOLDER SETTINGS`, with one end of a socket
as FD. It runs one query at a time. A query names the Parquet files that it may read; this process
has no catalog, no credentials and no address of the server. Rows leave Spark partition by
partition, in order, so that neither this process nor the driver holds a result. It ends when its
socket closes or a query is cancelled, and Spark's JVM ends with it: tasks of some joins never look
whether they are cancelled, and would hold the cores that the next query needs. FOLDER is its own:
for what Spark spills, and for the JVM's log. At a Spark Connect server each query has a session,
which ends with it; there is no JVM.

A frame is one byte with its type, eight bytes of length, and the payload.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import queue
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from pipeline import archive, connect, errors, gateway, java, masters, session, settings

HEADER: Final = struct.Struct(">BQ")
REQUEST_BYTES_MAX: Final = 1 << 30
END_SECONDS: Final = 0.8
"""How long the end of a session on a Spark Connect server may take: the server kills a process that
is to stop after a second."""
NICENESS: Final = 5
"""The serving process comes first when both need a processor."""


class WarehouseFrame(enum.IntEnum):
    """The content of a frame."""

    QUERY = 1
    CANCEL = 2
    SCHEMA = 3
    BATCH = 4
    FAULT = 5
    DONE = 6


class WarehouseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How Spark is started. memory_mib: of the driver's heap. Other fields are the server's own.

    cores: of a cluster, for all executors together. executor_memory_mib, executor_cores: of each
    executor. None leaves them to Spark.
    """

    master: str
    memory_mib: int
    cores: int | None = None
    executor_memory_mib: int | None = None
    executor_cores: int | None = None


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """Parquet files that are read in the same way. columns: of the files, in the table's order."""

    path: str
    columns: tuple[str, ...]


class WarehouseTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the query's text. columns: (name, Spark's type)."""

    name: str
    columns: tuple[tuple[str, str], ...]
    folders: tuple[Folder, ...]


class WarehouseQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query. Other fields of the request are the server's own."""

    text: str
    timezone: str
    tables: tuple[WarehouseTable, ...]


class QueryFault(Exception):
    """A query failed. cause, code: as the server's engine has them."""

    def __init__(self, cause: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.code = code


class WarehouseWire:
    """The frames from and to the server. Mutable: a thread reads.

    end_spark: ends Spark's JVM or the session, once there is one.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._stream = connection.makefile("rwb", buffering=1 << 16)
        self._queries: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_leaving = False
        self.end_spark: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, daemon=True).start()

    def queries(self) -> Iterator[bytes]:
        """Yield the queries that arrive, for ever."""
        while True:
            yield self._queries.get()

    def send(self, frame_type: WarehouseFrame, payload: bytes) -> None:
        """Send one frame; wait while the server reads none."""
        if self._is_leaving:  # after the answer to a query the server would send another
            return
        with contextlib.suppress(OSError):  # the reading thread sees the end, too
            self._stream.write(HEADER.pack(frame_type, len(payload)))
            self._stream.write(payload)
            self._stream.flush()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while header := self._stream.read(HEADER.size):
                frame_type, size_bytes = HEADER.unpack(header)
                assert size_bytes <= REQUEST_BYTES_MAX
                payload = self._stream.read(size_bytes)
                if frame_type == WarehouseFrame.QUERY:
                    self._queries.put(payload)
                elif frame_type == WarehouseFrame.CANCEL:
                    break
        self.leave()

    def leave(self) -> NoReturn:
        """End this process and Spark at once."""
        self._is_leaving = True
        self.end_spark()
        os._exit(0)


Rows: TypeAlias = Callable[[WarehouseQuery], Generator[bytes, None, None]]
"""Runs a query; yields the Arrow schema of its result, then its batches."""


def serve(wire: WarehouseWire, rows: Rows) -> None:
    """Answer queries until the server is gone."""
    for payload in wire.queries():
        # Exactly one frame ends every query, DONE or FAULT: the server counts on it.
        try:
            _answer(msgspec.msgpack.decode(payload, type=WarehouseQuery), wire, rows)
            wire.send(WarehouseFrame.DONE, msgspec.msgpack.encode({}))
        except QueryFault as fault:
            _send_fault(wire, fault)


def _answer(query: WarehouseQuery, wire: WarehouseWire, rows: Rows) -> None:
    """Run a query and send its rows. Raises QueryFault."""
    try:
        with contextlib.closing(rows(query)) as batches:
            wire.send(WarehouseFrame.SCHEMA, next(batches))
            for batch in batches:
                wire.send(WarehouseFrame.BATCH, batch)
    except Exception as error:
        raise fault_of(error) from error


def _rows(spark: session.Spark, query: WarehouseQuery) -> Generator[bytes, None, None]:
    """Run a query in the JVM's Spark, as `Rows`."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.serializers import NoOpSerializer
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.util import _local_iterator_from_socket

    own = spark.session.newSession()
    own.conf.set("spark.sql.session.timeZone", query.timezone)
    result = _result(own, query)
    yield to_arrow_schema(result.schema).serialize().to_pybytes()
    batches = result._jdf.toArrowBatchRdd()  # noqa: SLF001 - py4j's only way
    address = spark.jvm.org.apache.spark.api.python.PythonRDD.toLocalIteratorAndServe(batches, True)
    yield from _local_iterator_from_socket(address, NoOpSerializer())


def _rows_of_connect(
    address: masters.ConnectServer, wire: WarehouseWire, query: WarehouseQuery
) -> Generator[bytes, None, None]:
    """Run a query in a session of its own on a Spark Connect server, as `Rows`."""
    # Imported here: PySpark is only there once Spark's half is installed.
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema

    connect.check(address)
    own_settings = {**SESSION_SETTINGS, "spark.sql.session.timeZone": query.timezone}
    with connect.opened(address, own_settings, {}) as own:
        wire.end_spark = functools.partial(_end_session, own)
        result = _result(own, query)
        yield to_arrow_schema(result.schema).serialize().to_pybytes()
        plan = result._plan  # noqa: SLF001 - PySpark gives rows one by one otherwise
        parts = own.client.to_table_as_iterator(plan.to_proto(own.client), plan.observations)
        for part in parts:
            if isinstance(part, pyarrow.Table):
                for batch in part.to_batches():
                    yield batch.serialize().to_pybytes()


def _end_session(own: Any) -> None:
    """Release a session, and end what runs in it; a server that does not answer is left."""
    thread = threading.Thread(target=own.stop, daemon=True)
    thread.start()
    thread.join(END_SECONDS)


def _result(own: Any, query: WarehouseQuery) -> Any:
    """Return a query's result as a frame. own: the session."""
    for table in query.tables:
        _frame(own, table).createOrReplaceTempView(_quoted(table.name))
    result = own.sql(query.text)
    # Of several columns with one name, none could be read by it.
    return result.toDF(*(f"c{number}" for number in range(len(result.columns))))


def _frame(own: Any, table: WarehouseTable) -> Any:
    """Return a table's rows: those of its files, columns by position."""
    names = [name for name, _ in table.columns]
    types = [spark_type for _, spark_type in table.columns]
    frame = None
    for folder in table.folders:
        reader = own.read.schema(_schema(folder.columns, types))
        # A path with a scheme is taken as it is, without this as a pattern besides: a folder
        # called `[x]` would match no file.
        part = reader.option("__globPaths__", "false").parquet(f"file:{folder.path}")
        part = part.toDF(*names)
        frame = part if frame is None else frame.union(part)
    return own.createDataFrame([], _schema(names, types)) if frame is None else frame


def _schema(names: Sequence[str], types: Sequence[str]) -> str:
    return ", ".join(f"{_quoted(name)} {each}" for name, each in zip(names, types, strict=True))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


VALUE_FAULTS: Final[Mapping[str, str]] = {
    "ARITHMETIC_OVERFLOW": "100039",
    "BINARY_ARITHMETIC_OVERFLOW": "100039",
    "CAST_INVALID_INPUT": "100038",
    "CAST_OVERFLOW": "100039",
    "DATETIME_OVERFLOW": "100039",
    "DIVIDE_BY_ZERO": "100051",
    "INTERVAL_DIVIDED_BY_ZERO": "100051",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": "100039",
    "NUMERIC_VALUE_OUT_OF_RANGE": "100039",
    "REMAINDER_BY_ZERO": "100051",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": "090150",
}
"""Spark's conditions that a value causes, and Snowflake's numbers."""
VALUE: Final = re.compile(r"(?:value |^\[\w+\.?\w*\] The value )'?([^\s']+)'?")
CONDITION: Final = re.compile(r"\[([A-Z_0-9]+)(?:\.[A-Z_0-9]+)*\]")
RESOURCES: Final = ("OutOfMemoryError", "maxResultSize", "UNABLE_TO_ACQUIRE_MEMORY")


def fault_of(error: Exception) -> QueryFault:
    """Return what went wrong, as far as Spark's words tell."""
    text = str(error)
    for condition in CONDITION.findall(text):
        code = VALUE_FAULTS.get(condition)
        if code == "100051":
            return QueryFault("value", "Division by zero", code)
        if code is not None:
            value = VALUE.search(text)
            return QueryFault("value", value[1] if value else condition.lower(), code)
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return QueryFault("disk_full", "the disk has no room left")
    if any(word in text for word in RESOURCES):
        return QueryFault("resources", "not enough memory for this query")
    return QueryFault("internal", session.reason(error))


def _send_fault(wire: WarehouseWire, fault: QueryFault) -> None:
    wire.send(
        WarehouseFrame.FAULT, msgspec.msgpack.encode((fault.cause, fault.message, fault.code))
    )


SESSION_SETTINGS: Final[Mapping[str, str]] = {
    # What the text relies on: see the emitter of Spark SQL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.variable.substitute": "false",
    # Dates and times before 1582 are what Iceberg's writers store: the proleptic calendar.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
"""Without these, Spark's answers would not be those of the server's own engine."""


def spark_settings(wanted: WarehouseSettings, folder: Path) -> dict[str, str]:
    """Return Spark's settings: no catalog but Spark's own, in memory, and no Hadoop service."""
    own = {
        "spark.master": wanted.master,
        "spark.app.name": "boathouse-warehouse",
        "spark.driver.memory": f"{wanted.memory_mib}m",
        "spark.local.dir": str(folder / "spill"),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": (folder / "tables").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "8" if wanted.master.startswith("local") else "200",
        **SESSION_SETTINGS,
    }
    if settings.is_on_this_machine(wanted.master):
        own["spark.driver.host"] = own["spark.driver.bindAddress"] = "127.0.0.1"
    if wanted.cores is not None:
        own["spark.cores.max"] = str(wanted.cores)
    if wanted.executor_memory_mib is not None:
        own["spark.executor.memory"] = f"{wanted.executor_memory_mib}m"
    if wanted.executor_cores is not None:
        own["spark.executor.cores"] = str(wanted.executor_cores)
    return own


def main(arguments: list[str]) -> None:
    """Start Spark, and serve the socket whose descriptor is the first argument."""
    descriptor, folder_text, wanted_text = arguments
    folder = Path(folder_text)
    wanted = msgspec.json.decode(wanted_text, type=WarehouseSettings)
    wire = WarehouseWire(socket.socket(fileno=int(descriptor)))
    wire.start()
    os.nice(NICENESS)
    try:
        address = masters.parse_connect(wanted.master)
        if address is not None:
            serve(wire, functools.partial(_rows_of_connect, address, wire))
            return
        environment = dict(os.environ)
        if settings.is_on_this_machine(wanted.master):
            environment["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        runtime, own = java.find(environment), spark_settings(wanted, folder)
        options: tuple[str, ...] = ()
        # Queries need none of the jars; the archive of classes fits a class path with them only.
        with contextlib.suppress(errors.JarsMissing):
            own["spark.driver.extraClassPath"], options = archive.installed(runtime, environment)
        with (
            gateway.running(
                runtime, own, folder=folder, environment=environment, jvm_options=options
            ) as wire.end_spark,
            session.opened(wanted.master) as spark,
        ):
            serve(wire, functools.partial(_rows, spark))
    except errors.PipelineError as error:
        # The query that waits is told; the next one starts another process.
        _send_fault(wire, QueryFault("crashed", str(error)))
        wire.leave()


if __name__ == "__main__":
    main(sys.argv[1:])
