"""engine: the rows of a table or query of a database, read by Spark with a JDBC driver.

The driver is a jar that the user names; its class stands in the jar itself. User, password and
other properties come from the environment or from a file, and never stand in a message, in the
record of loads or in a URL.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pipeline import errors, jobs, progress, properties, session, settings, sources, watermarks

USER, PASSWORD = "BOATHOUSE_JDBC_USER", "BOATHOUSE_JDBC_PASSWORD"
DRIVERS = "META-INF/services/java.sql.Driver"
FETCH_ROWS = "1000"
LOGIN_SECONDS = 30
"""How long a driver on this machine may take to open a connection. Source: java.sql.DriverManager;
the drivers of PostgreSQL and MySQL obey it."""
TIMEOUTS = frozenset({"SQLTimeoutException", "MySQLTimeoutException"})
"""Classes of what drivers throw when a query is not answered in time."""
TIMEOUT_OF_POSTGRESQL = "canceling statement due to user request"
"""PostgreSQL's driver has no class of its own for it; its server's timeouts give other reasons."""
QUERY_TIMEOUT = "queryTimeout"
"""Spark's name for the seconds that a query may take; names of options have no case for Spark."""
SHOWN = frozenset({"user", QUERY_TIMEOUT.lower()})
"""Properties whose values are no secrets, in lower case."""
NUMBERS = ("tinyint", "smallint", "int", "bigint")


def place_of(source: settings.JdbcSource) -> str:
    """Return what the record of loads names the source: URL, and the table or the query's hash."""
    if source.table is not None:
        return f"{source.url} table {source.table}"
    digest = hashlib.sha256((source.query or "").encode()).hexdigest()
    return f"{source.url} query {digest}"


def check(source: settings.JdbcSource) -> None:
    """Raise BadArgument if the driver or the properties cannot be read."""
    _driver(source)
    _answer_time(source)


@contextlib.contextmanager
def explained(source: settings.JdbcSource) -> Iterator[None]:
    """Take the secret values of properties out of the block's errors; of a query that was not
    answered in time, name what sets the time."""
    started = time.monotonic()
    with properties.hidden(lambda: _properties(source), shown=SHOWN):
        try:
            yield
        except errors.SparkJobFailed as error:
            seconds, setting = _answer_time(source)
            # Others cancel queries too, and drivers have other timeouts: those can come earlier.
            is_possible = 0 < seconds <= time.monotonic() - started
            if is_possible and _is_timeout(error):
                error.args = (
                    f"{source} did not answer a query within {seconds} s, "
                    f"the time that {setting} gives it: {error}",
                )
            raise


def _answer_time(source: settings.JdbcSource) -> tuple[int, str]:
    """Return the seconds that a query may take, 0 for any time, and what sets them: the file of
    properties before the option. Raises BadArgument."""
    seconds, setting = source.answers_within_seconds, "--jdbc-timeout or source.timeout"
    for name, text in properties.read(source.properties_file).items():
        if name.lower() == QUERY_TIMEOUT.lower():
            setting = f"{name} in {source.properties_file}"
            if not (text.isascii() and text.isdecimal()):
                raise errors.BadArgument(f"{setting} is not a number of seconds: {text!r}")
            seconds = int(text)
    return seconds, setting


def _is_timeout(error: errors.SparkJobFailed) -> bool:
    with contextlib.suppress(Exception):  # the JVM may have ended
        return TIMEOUT_OF_POSTGRESQL in str(error) or session.is_caused_by(error, TIMEOUTS)
    return False


def resolved(
    spark: session.Spark, load: jobs.Load, source: settings.JdbcSource, chain: frozenset[str] | None
) -> sources.WantedSources:
    """Return what to load by the source's watermark.

    chain: as in WantedSources; None for a load that replaces its table. Raises BadArgument,
    BadSource for a row without a watermark.
    """
    place, etags = place_of(source), chain or frozenset()
    after = watermarks.end_of(place, etags)
    until = _greatest(spark, source)
    if until is None or (after is not None and until <= after):
        return sources.WantedSources(fresh=(), skipped=len(etags) // 2, noun=load.noun)
    rows = watermarks.WatermarkRange(after=after, until=until)
    etag, claim = rows.etags
    return sources.WantedSources(
        fresh=(sources.Source(place=place, etag=etag, size_bytes=0),),
        skipped=0,
        claims=((place, claim),),
        chain=chain,
        rows=rows,
        noun=load.noun,
    )


def frame(
    spark: session.Spark, source: settings.JdbcSource, rows: watermarks.WatermarkRange
) -> Any:
    """Return the rows of a range as a frame."""
    # Imported here: PySpark is only there once Spark's half is installed.
    from pyspark.sql import functions

    read = _read(spark, source, _relation(source))
    if rows.until is None:
        return read
    column = functions.col(_quoted(source.watermark or ""))
    read = read.filter(column <= functions.lit(rows.until))
    return read if rows.after is None else read.filter(column > functions.lit(rows.after))


def _greatest(spark: session.Spark, source: settings.JdbcSource) -> int | None:
    """Return the greatest value of the watermark; None for a table without a row.

    The database looks it up, as a row of the column: a bare MAX has no type in every database.
    """
    dialect = spark.jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(source.url)
    everything = _read(spark, source, _relation(source))
    names = {name.lower(): name for name in everything.columns}
    name = names.get((source.watermark or "").lower())
    if name is None:
        raise errors.no_column("--watermark", source.watermark or "", everything.columns)
    type_name = everything.schema[name].dataType.simpleString()
    if type_name not in NUMBERS and not (
        type_name.startswith("decimal(") and type_name.endswith(",0)")
    ):
        raise errors.BadArgument(
            f"--watermark names {name!r}, a column of type {type_name}; it must hold whole numbers"
        )
    column, relation = dialect.quoteIdentifier(name), _relation(source)
    nulls = f"(select {column} from {relation} boathouse_a where {column} is null)"
    if _first(spark, source, f"{nulls} boathouse_n") is not None:
        raise errors.BadSource(
            f"--watermark names {name!r}, which is NULL in some rows; nothing was loaded"
        )
    greatest = f"(select max({column}) from {relation} boathouse_b)"
    row = _first(
        spark,
        source,
        f"(select {column} from {relation} boathouse_a where {column} = {greatest}) boathouse_m",
    )
    return None if row is None else int(row[0])


def _relation(source: settings.JdbcSource) -> str:
    """Return what stands after FROM: a table's name as the user writes it, or the query."""
    return source.table if source.table is not None else f"({source.query})"


def _first(spark: session.Spark, source: settings.JdbcSource, relation: str) -> Any:
    """Return the first row of a relation; None without one."""
    read = _read(spark, source, relation)
    with _waiting(spark, source):
        return read.first()


def _waiting(spark: session.Spark, source: settings.JdbcSource) -> AbstractContextManager[None]:
    """Return a block that shows that the database is waited for."""
    return progress.watching(f"waiting for {source}", spark.counting(is_writing=False))


def _read(spark: session.Spark, source: settings.JdbcSource, relation: str) -> Any:
    _open_driver(spark, source)
    # A database that takes a connection and never answers would be waited for without end.
    spark.jvm.java.sql.DriverManager.setLoginTimeout(LOGIN_SECONDS)
    timeout = str(source.answers_within_seconds)
    options = {"fetchsize": FETCH_ROWS, QUERY_TIMEOUT: timeout, **_properties(source)}
    if relation.startswith("(") and relation.endswith(")"):
        relation += " boathouse_q"
    reader = (
        spark.session.read.format("jdbc")
        .options(**options)
        .option("url", source.url)
        .option("driver", _driver(source))
        .option("dbtable", relation)
    )
    with _waiting(spark, source):  # for the columns
        return reader.load()


def _open_driver(spark: session.Spark, source: settings.JdbcSource) -> None:
    """Let the session's JVM, and those of a cluster, load the driver."""
    path = str(Path(source.jar).expanduser().resolve())
    loader = spark.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    url = spark.jvm.java.io.File(path).toURI().toURL()
    if str(url) in {str(one) for one in loader.getURLs()}:
        return
    loader.addURL(url)
    if not spark.session.sparkContext.master.startswith("local"):
        spark.session._jsc.addJar(path)  # noqa: SLF001 - py4j's only way


def _driver(source: settings.JdbcSource) -> str:
    """Return the class that a driver's jar names."""
    try:
        with zipfile.ZipFile(Path(source.jar).expanduser()) as jar:
            lines = jar.read(DRIVERS).decode().splitlines()
    except (OSError, zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise errors.BadArgument(f"{source.jar} is not the jar of a JDBC driver") from error
    names = [line.partition("#")[0].strip() for line in lines]
    return next((name for name in names if name), "")


def _properties(source: settings.JdbcSource) -> Mapping[str, str]:
    """Return the properties of the connection, such as user and password. Raises BadArgument."""
    present = {"user": os.environ.get(USER), "password": os.environ.get(PASSWORD)}
    return {
        **{name: value for name, value in present.items() if value},
        **properties.read(source.properties_file),
    }


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
