"""engine: the one SparkSession of a job, and the progress of its tasks.

All calls to the JVM through py4j are here or in the job that uses it. A session ends with its JVM;
no process stays, and no settings stay on disk.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pipeline import archive, errors, gateway, jars, java, progress, resources, servers, settings

LOG_LEVEL = "WARN"
# PySpark logs each failed analysis as JSON on standard error; the job prints it itself.
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
READING = re.compile(r"while reading file s3a(://.+?)\. ")
ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] ")
SQL_STATE = re.compile(r" +SQLSTATE: \w{5}.*")
REASON_MAX = 500
CAUSES_MAX = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Spark:
    """A running session and the JVM behind it."""

    session: Any
    jvm: Any

    def catalog(self, warehouse: str) -> Any:
        """The Java Iceberg catalog (org.apache.iceberg.catalog.Catalog) of a warehouse."""
        manager = self.session._jsparkSession.sessionState().catalogManager()  # noqa: SLF001 - py4j
        return manager.catalog(warehouse).icebergCatalog()

    def identifier(self, table: settings.TargetTable) -> Any:
        """The table as a Java TableIdentifier."""
        namespace = self.namespace(table.namespace)
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, table.name)

    def namespace(self, levels: Sequence[str]) -> Any:
        """The levels as a Java Namespace."""
        gateway = self.session.sparkContext._gateway  # noqa: SLF001 - py4j's only way to an array
        array = gateway.new_array(self.jvm.java.lang.String, len(levels))
        for position, level in enumerate(levels):
            array[position] = level
        return self.jvm.org.apache.iceberg.catalog.Namespace.of(array)

    def singleton(self, class_name: str) -> Any:
        """The object that a Java class's static `get()` returns.

        By reflection: where a class also has an instance's `get(...)`, py4j calls whichever of the
        two the JVM lists first.
        """
        gateway = self.session.sparkContext._gateway  # noqa: SLF001 - py4j's only way to an array
        method = self.jvm.java.lang.Class.forName(class_name).getMethod(
            "get", gateway.new_array(self.jvm.java.lang.Class, 0)
        )
        return method.invoke(None, gateway.new_array(self.jvm.java.lang.Object, 0))

    @contextmanager
    def quiet(self, *loggers: str) -> Iterator[None]:
        """Turn Java's loggers off for the time of the block. loggers: names of classes."""
        log4j = self.jvm.org.apache.logging.log4j
        levels = {name: log4j.LogManager.getLogger(name).getLevel() for name in loggers}
        set_level = log4j.core.config.Configurator.setLevel
        try:
            for name in loggers:
                set_level(name, log4j.Level.OFF)
            yield
        finally:
            with contextlib.suppress(Exception):  # the JVM may have ended
                for name, level in levels.items():
                    set_level(name, level)

    def counting(self) -> Callable[[], progress.JobCounters]:
        """Return a function that counts what Spark's stages have done from now on."""
        earlier = {stage_id for stage_id, *_ in self._stages()}

        def counters() -> progress.JobCounters:
            rows = done = total = read_bytes = 0
            for stage_id, its_rows, its_bytes, its_done, its_total in self._stages():
                if stage_id not in earlier:
                    rows, read_bytes = max(rows, its_rows), read_bytes + its_bytes
                    done, total = done + its_done, total + its_total
            return progress.JobCounters(rows=rows, done=done, total=total, read_bytes=read_bytes)

        return counters

    def _stages(self) -> list[tuple[int, int, int, int, int]]:
        """Return of each stage its id, rows written, bytes read, tasks done, and all its tasks."""
        store = self.session._jsc.sc().statusStore()  # noqa: SLF001 - py4j's only way
        gateway = self.session.sparkContext._gateway  # noqa: SLF001 - py4j's only way to an array
        no_list, no_quantiles = (
            self.jvm.java.util.ArrayList(),
            gateway.new_array(self.jvm.double, 0),
        )
        # Java does not see Scala's default arguments: every status, without details.
        stages = store.stageList(no_list, False, False, no_quantiles, no_list)
        return [
            (
                int(stage.stageId()),
                int(stage.outputRecords()),
                int(stage.inputBytes()),
                int(stage.numCompleteTasks()),
                int(stage.numTasks()),
            )
            for stage in map(stages.apply, range(stages.size()))
        ]


# Opens a session for a warehouse, by its name.
Open: TypeAlias = Callable[[str], AbstractContextManager[Spark]]


@contextmanager
def started(
    server: settings.ServerEndpoint,
    warehouse: str,
    *,
    gets: resources.SparkResources,
    say: progress.Say,
    may_fetch: bool = True,
    ui: bool = False,
    new_log: Callable[[], Path | None] = lambda: None,
) -> Iterator[Spark]:
    """Start the JVM and a session on one warehouse; end both with the block.

    gets: the master, and how much of it. may_fetch: download Spark's jars if they are missing. ui:
    serve Spark's pages, and say where. new_log: returns the file for Spark's output; without one
    it is not kept.
    Raises BadArgument, NoJava, JarsMissing, SparkFailed.
    """
    master = gets.master
    settings.check_master(master)
    environment = dict(os.environ)
    runtime = java.find(environment)
    folder_of_jars = jars.ensure(runtime, environment, say=say, may_fetch=may_fetch)
    if settings.is_on_this_machine(master):
        environment["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    trust = java.trust_options(jars.cache_folder(environment), environment)
    wanted = settings.spark_settings(
        server,
        warehouse,
        gets=gets,
        jars=folder_of_jars,
        java_options=trust if runtime.bundled else (),
        ui=ui,
    )
    say(f"starting Spark on {master}")
    with (
        gateway.private_folder() as folder,
        gateway.running(
            runtime,
            wanted,
            folder=folder,
            environment=environment,
            log=new_log(),
            jvm_options=archive.options(runtime, folder_of_jars),
        ) as kill_jvm,
        servers.watched(server, give_up=kill_jvm),
        opened(master) as spark,
    ):
        if ui:
            say(f"Spark's pages: {spark.session.sparkContext.uiWebUrl}")
        try:
            yield spark
        finally:
            # Without this the JVM waits ten seconds for the catalog to renew its token.
            with contextlib.suppress(Exception):
                spark.catalog(warehouse).close()


@contextmanager
def opened(master: str) -> Iterator[Spark]:
    """Open a session in the JVM that runs; end it with the block. Raises SparkFailed."""
    # Imported here: PySpark takes a second to import, and `--help` does not need it.
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in NOISY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    try:
        with failures(), _own_interrupts():
            session = SparkSession.builder.getOrCreate()
            session.sparkContext.setLogLevel(LOG_LEVEL)
    except errors.SparkFailed as error:
        raise errors.SparkFailed(f"Spark did not start on {master}: {error}") from error
    try:
        yield Spark(session=session, jvm=session._jvm)  # noqa: SLF001 - py4j's only way
    finally:
        # After an interrupted call py4j may refuse both; the JVM ends with its standard input.
        with contextlib.suppress(Exception):
            session.stop()
        spark_gateway = SparkContext._gateway  # noqa: SLF001 - PySpark keeps no other reference
        if spark_gateway is not None:
            with contextlib.suppress(Exception):
                spark_gateway.shutdown()
        SparkContext._gateway = None  # noqa: SLF001
        SparkContext._jvm = None  # noqa: SLF001


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore this process's handler of Ctrl-C. PySpark's own asks the JVM to cancel jobs in the
    middle of another call to it, and so fails with a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def failures() -> Iterator[None]:
    """Turn what Spark and py4j raise in the block into SparkJobFailed, with the inmost reason."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise errors.SparkJobFailed(reason(error)) from error


def thrown(error: Exception) -> tuple[str, str] | None:
    """Return the class and the message of the Java exception behind error, if one is."""
    java_error = _java_error(error)
    if java_error is None:
        return None
    return str(java_error.getClass().getSimpleName()), str(java_error.getMessage())


def is_caused_by(error: Exception, names: Collection[str]) -> bool:
    """Return whether a Java exception of one of these classes is behind an error of `failures`."""
    cause = error.__cause__
    java_error = _java_error(cause) if isinstance(cause, Exception) else None
    return any(str(each.getClass().getSimpleName()) in names for each in _java_causes(java_error))


def each(elements: Any) -> Iterator[Any]:
    """Yield what a Java iterable has."""
    iterator = elements.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _java_causes(java_error: Any) -> list[Any]:
    """Return an exception and its causes, the outermost first; none of None."""
    causes: list[Any] = []
    while java_error is not None and len(causes) < CAUSES_MAX:
        causes.append(java_error)
        java_error = java_error.getCause()
    return causes


def _java_error(error: Exception) -> Any:
    # The attributes of py4j's errors, and of those that PySpark converts.
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def reason(error: Exception) -> str:
    """Return the message of an error's innermost cause, with the file that was being read."""
    java_error = _java_error(error)
    if java_error is not None:
        # The JVM may have ended; then Python's own text is used.
        with contextlib.suppress(Exception):
            named = [
                (str(one.getClass().getSimpleName()), str(one.getMessage()))
                for one in _java_causes(java_error)
            ]
            return _sentence(named)
    lines = [line for line in str(error).splitlines() if line.strip() and "Trace:" not in line]
    return _plain(lines[0]) if lines else type(error).__name__


def _sentence(causes: Sequence[tuple[str, str]]) -> str:
    """Format Java's causes as one line. causes: (class, message), the outermost first."""
    java_class, message = causes[-1]
    text = _plain(message)
    # A message of one word, such as a class name or null, needs its class to make sense.
    if " " not in text:
        text = f"{java_class}: {text}"
    files = [
        match.group(1)
        for _, cause_message in causes
        if (match := READING.search(cause_message + " "))
    ]
    return f"s3{files[0]}: {text}" if files and files[0] not in text else text


def _plain(message: str) -> str:
    """Return Spark's message as one printable line, without its error codes."""
    line = ERROR_CLASS.sub("", SQL_STATE.sub("", " ".join(message.split())))
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:REASON_MAX]
