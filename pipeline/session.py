"""engine: the one SparkSession of a job, and the progress of its tasks.

All calls to the JVM through py4j are here or in the job that uses it. A session ends with its JVM;
no process stays, and no settings stay on disk. A session on a Spark Connect server (`connect`) has
a JVM too, without Spark's driver.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pipeline import (
    archive,
    connect,
    errors,
    gateway,
    jars,
    java,
    javanames,
    masters,
    progress,
    resources,
    servers,
    settings,
    sources,
    workfolders,
)

LOG_LEVEL = "WARN"
# PySpark logs each failed analysis as JSON on standard error; the job prints it itself.
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
READING = re.compile(r"while reading file (?:s3a?|(file))(:/.+?)\. ")
ERROR_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] ")
SQL_STATE = re.compile(r" +SQLSTATE: \w{5}.*")
REASON_MAX = 500
CAUSES_MAX = 100
JVM_FAILURES = frozenset({"OutOfMemoryError", "StackOverflowError", "NoClassDefFoundError"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Spark:
    """A running session and the JVM behind it, by its py4j gateway.

    remote: of a session on a Spark Connect server; the JVM then has Iceberg's library alone.
    reads_this_machine: whether the session can read files of this machine.
    """

    session: Any
    jvm: Any
    java_gateway: Any
    remote: connect.Remote | None = None
    reads_this_machine: bool = True

    def catalog(self, warehouse: str) -> Any:
        """The Java Iceberg catalog (org.apache.iceberg.catalog.Catalog) of a warehouse."""
        if self.remote is not None:
            return self.remote.catalog(self.jvm, warehouse)
        manager = self.session._jsparkSession.sessionState().catalogManager()  # noqa: SLF001 - py4j
        return manager.catalog(warehouse).icebergCatalog()

    def identifier(self, table: settings.TargetTable) -> Any:
        """The table as a Java TableIdentifier."""
        namespace = self.namespace(table.namespace)
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, table.name)

    def namespace(self, levels: Sequence[str]) -> Any:
        """The levels as a Java Namespace."""
        array = self.java_gateway.new_array(self.jvm.java.lang.String, len(levels))
        for position, level in enumerate(levels):
            array[position] = level
        return self.jvm.org.apache.iceberg.catalog.Namespace.of(array)

    def singleton(self, class_name: str) -> Any:
        """The object that a Java class's static `get()` returns.

        By reflection: where a class also has an instance's `get(...)`, py4j calls whichever of the
        two the JVM lists first.
        """
        new_array = self.java_gateway.new_array
        method = self.jvm.java.lang.Class.forName(class_name).getMethod(
            "get", new_array(self.jvm.java.lang.Class, 0)
        )
        return method.invoke(None, new_array(self.jvm.java.lang.Object, 0))

    def outlives(self, error: errors.SparkJobFailed) -> bool:
        """Return whether a job's error leaves the session as it was: its JVM answers, and lacked
        nothing. Of a Spark Connect server that is not known."""
        if self.remote is not None:
            return False
        with contextlib.suppress(Exception):
            self.jvm.java.lang.System.nanoTime()
            return not is_caused_by(error, JVM_FAILURES)
        return False

    def path(self, source: sources.Source) -> str:
        """The name by which the session reads a raw file."""
        if self.remote is not None and source.is_object:
            return self.remote.path(source.place)
        return source.path

    def parser(self) -> Any:
        """A Java parser of Spark's SQL."""
        if self.remote is not None:
            return self.jvm.org.apache.spark.sql.execution.SparkSqlParser()
        return self.session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - py4j

    @contextmanager
    def quiet(self, *loggers: str) -> Iterator[None]:
        """Turn Java's loggers off for the time of the block. loggers: names of classes.

        Those of a Spark Connect server stay: its output is not the job's.
        """
        if self.remote is not None:
            yield
            return
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

    def counting(
        self, *, is_writing: bool = True, is_first_stage_alone: bool = False
    ) -> Callable[[], progress.JobCounters]:
        """Return a function that counts what Spark's stages have done from now on.

        is_writing: whether they write rows; those of others are not counted. is_first_stage_alone:
        whether the stages after the first are left out, which read what it has cached.
        """
        if self.remote is not None:
            return self.remote.tasks.counting(is_first_stage_alone=is_first_stage_alone)
        latest = next((int(stage.stageId()) for stage in self._stages()), -1)

        def counters() -> progress.JobCounters:
            rows = done = total = read_bytes = 0
            stages: dict[int, Any] = {}
            for stage in self._stages():
                # A session keeps a thousand stages, and each fact is a question to the JVM.
                if (number := int(stage.stageId())) <= latest:
                    break
                stages[number] = stage
            new = [stages[number] for number in sorted(stages)]
            for stage in new[:1] if is_first_stage_alone else new:
                rows += int(stage.outputRecords())
                read_bytes += int(stage.inputBytes())
                done += int(stage.numCompleteTasks())
                total += int(stage.numTasks())
            return progress.JobCounters(
                rows=rows if is_writing else None, done=done, total=total, read_bytes=read_bytes
            )

        return counters

    def _stages(self) -> Iterator[Any]:
        """Yield the Java StageData of each stage, the newest first, as Spark's store lists them."""
        store = self.session._jsc.sc().statusStore()  # noqa: SLF001 - py4j's only way
        no_list, no_quantiles = (
            self.jvm.java.util.ArrayList(),
            self.java_gateway.new_array(self.jvm.double, 0),
        )
        # Java does not see Scala's default arguments: every status, without details.
        stages = store.stageList(no_list, False, False, no_quantiles, no_list)
        return map(stages.apply, range(stages.size()))


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

    A session on a Spark Connect server gets a JVM too, without Spark's driver.
    gets: the master, and how much of it. may_fetch: download Spark's jars if they are missing. ui:
    serve Spark's pages, and say where. new_log: returns the file for Spark's output; without one
    it is not kept.
    Raises BadArgument, NoJava, JarsMissing, SparkFailed.
    """
    master = gets.master
    address = masters.parse_connect(master)
    if address is not None:
        connect.check_reach(address, server)
        connect.check(address)
    environment = dict(os.environ)
    runtime = java.find(environment)
    folder_of_jars = jars.ensure(runtime, environment, say=say, may_fetch=may_fetch)
    java_options: tuple[str, ...] = ()
    # The rest of a job, in Python, reaches an https server by these certificates too.
    if runtime.bundled or server.url.startswith("https:"):
        java_options = java.trust_options(jars.cache_folder(environment), environment)

    @contextmanager
    def running(wanted: Mapping[str, str]) -> Iterator[Callable[[], None]]:
        with (
            workfolders.opened() as folder,
            gateway.running(
                runtime,
                wanted,
                folder=folder,
                environment=environment,
                log=new_log(),
                jvm_options=(
                    # What Spark and its libraries write ends with the folder, also if it is killed.
                    f"-Djava.io.tmpdir={folder}",
                    *archive.options(runtime, folder_of_jars),
                    *java.LATE_OPTIMISATION,
                ),
            ) as kill_jvm,
        ):
            yield kill_jvm

    if address is not None:
        say(f"connecting to Spark at {address}")
        library = settings.library_settings(jars=folder_of_jars, java_options=java_options)
        with (
            running(library) as kill_jvm,
            _connected(server, warehouse, address, conf=gets.conf, kill_jvm=kill_jvm) as spark,
        ):
            yield spark
        return
    if settings.is_on_this_machine(master):
        environment["SPARK_LOCAL_IP"] = os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    wanted = settings.spark_settings(
        server, warehouse, gets=gets, jars=folder_of_jars, java_options=java_options, ui=ui
    )
    say(f"starting Spark on {master}")
    with (
        running(wanted) as kill_jvm,
        servers.watched(server, give_up=kill_jvm),
        # What lies in folders of the user's, Spark removes only as its JVM exits.
        opened(
            master, end=None if settings.has_local_folders(wanted, environment) else kill_jvm
        ) as spark,
    ):
        if ui:
            say(f"Spark's pages: {spark.session.sparkContext.uiWebUrl}")
        try:
            yield spark
        finally:
            # It sends the last reports of metrics.
            with contextlib.suppress(Exception):
                spark.catalog(warehouse).close()


@contextmanager
def _connected(
    server: settings.ServerEndpoint,
    warehouse: str,
    address: masters.ConnectServer,
    *,
    conf: Mapping[str, str],
    kill_jvm: Callable[[], None],
) -> Iterator[Spark]:
    """Open a session on a Spark Connect server, beside the JVM that runs for Iceberg's library."""
    _silence()
    remote = connect.Remote(address=address, endpoint=server, tasks=connect.RemoteTasks())
    with contextlib.ExitStack() as block:
        try:
            with failures(), _own_interrupts():
                java_gateway = block.enter_context(connect.gateway())
                # Once the catalogs are closed: see `opened`.
                block.enter_context(_calling_unless_failed(kill_jvm))
                session = block.enter_context(
                    connect.opened(address, settings.connect_settings(server, warehouse), conf)
                )
                # Loads the catalog's class, which the server may lack.
                own = session.catalog.currentCatalog()
                session.catalog.setCurrentCatalog(warehouse)
                session.catalog.setCurrentCatalog(own)
        except errors.SparkFailed as error:
            raise errors.SparkFailed(f"no session could be opened at {address}: {error}") from error
        session.registerProgressHandler(remote.tasks)
        block.callback(remote.close)

        def give_up() -> None:
            with contextlib.suppress(Exception):
                session.interruptAll()
            kill_jvm()

        block.enter_context(servers.watched(server, give_up=give_up))
        yield Spark(
            session=session,
            jvm=java_gateway.jvm,
            java_gateway=java_gateway,
            remote=remote,
            reads_this_machine=False,
        )


@contextmanager
def _calling_unless_failed(end: Callable[[], None]) -> Iterator[None]:
    """Call `end` after a block that raises nothing."""
    yield
    end()


@contextmanager
def opened(master: str, *, end: Callable[[], None] | None = None) -> Iterator[Spark]:
    """Open a session in the JVM that runs; end it with the block. Raises SparkFailed.

    end: ends the JVM at once when the session has stopped. Left alone, the JVM waits ten seconds
    more, for Iceberg's renewals of keys. After an error or an interruption of the block it is left
    alone: its threads may still delete the files of what they have not committed.
    """
    # Imported here: PySpark takes a second to import, and `--help` does not need it.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _silence()
    try:
        with failures(), _own_interrupts():
            session = SparkSession.builder.getOrCreate()
            javanames.install(session.sparkContext._gateway)  # noqa: SLF001 - the same as below
            session.sparkContext.setLogLevel(LOG_LEVEL)
    except errors.SparkFailed as error:
        raise errors.SparkFailed(f"Spark did not start on {master}: {error}") from error
    has_failed = True
    try:
        yield Spark(
            session=session,
            jvm=session._jvm,  # noqa: SLF001 - py4j's only way
            java_gateway=session.sparkContext._gateway,  # noqa: SLF001 - the same
            reads_this_machine=settings.is_on_this_machine(master),
        )
        has_failed = False
    finally:
        # After an interrupted call py4j may refuse both; the JVM ends with its standard input.
        with contextlib.suppress(Exception):
            session.stop()
            if end is not None and not has_failed:
                end()
        spark_gateway = SparkContext._gateway  # noqa: SLF001 - PySpark keeps no other reference
        if spark_gateway is not None:
            with contextlib.suppress(Exception):
                spark_gateway.shutdown()
        SparkContext._gateway = None  # noqa: SLF001
        SparkContext._jvm = None  # noqa: SLF001


def _silence() -> None:
    """Turn off the loggers of PySpark that print what the job prints itself."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.logger import PySparkLogger

    for name in NOISY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True


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
        text = reason(error)
        lack = connect.missing(text) if connect.causes(error) else None
        raise errors.SparkJobFailed(lack or text) from error


def thrown(error: Exception) -> tuple[str, str] | None:
    """Return the class and the message of the Java exception behind error, if one is."""
    java_error = _java_error(error)
    if java_error is None:
        return next(iter(connect.causes(error)), None)
    return str(java_error.getClass().getSimpleName()), str(java_error.getMessage())


def is_caused_by(error: Exception, names: Collection[str]) -> bool:
    """Return whether a Java exception of one of these classes is behind an error of `failures`."""
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return False
    java_classes = [str(one.getClass().getSimpleName()) for one in _java_causes(_java_error(cause))]
    return not {*java_classes, *(name for name, _ in connect.causes(cause))}.isdisjoint(names)


def each(elements: Any) -> Iterator[Any]:
    """Yield what a Java iterable has.

    py4j's own iteration ends by an exception in the JVM, of which PySpark asks what it is thirteen
    times, and for its stack.
    """
    iterator = elements.iterator()
    while iterator.hasNext():
        yield iterator.next()


def strings(java_map: Any) -> dict[str, str]:
    """Return a Java map of strings."""
    return {str(key): str(java_map.get(key)) for key in each(java_map.keySet())}


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
    if of_server := connect.causes(error):
        return _sentence(of_server)
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
        (match.group(1) or "s3") + match.group(2)
        for _, cause_message in causes
        if (match := READING.search(connect.SCHEME.sub("s3://", cause_message) + " "))
    ]
    return f"{files[0]}: {text}" if files and files[0] not in text else text


def _plain(message: str) -> str:
    """Return Spark's message as one printable line, without its error codes."""
    message = connect.SCHEME.sub("s3://", message)
    line = ERROR_CLASS.sub("", SQL_STATE.sub("", " ".join(message.split())))
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:REASON_MAX]
