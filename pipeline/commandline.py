"""wiring: the options of `python -m pipeline`, and what their values mean."""

from __future__ import annotations

import argparse
import datetime
import os
import re
from pathlib import Path
from typing import NoReturn

from pipeline import (
    errors,
    files,
    following,
    leases,
    loads,
    maintenance,
    reading,
    rejects,
    settings,
)

COUNT_MAX = 2**31 - 1
AGE = re.compile(r"(\d+)([dhms])\Z")
AGE_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, without the list of all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"pipeline: {message}; `{self.prog} --help` says what there is\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of all jobs' options."""
    parser = _Parser(prog="python -m pipeline", description="Spark jobs on a running Boathouse.")
    common = _Parser(add_help=False)
    common.add_argument("--data", default=os.environ.get("BOATHOUSE_DATA", "./boathouse-data"),
                        help="data folder of the server (default: %(default)s)")  # fmt: skip
    common.add_argument("--url", help="the server's URL, when it runs elsewhere")
    common.add_argument("--region", help="the server's region")
    common.add_argument("--json", action="store_true", help="print the outcome as JSON")
    spark = _Parser(add_help=False)
    spark.add_argument(
        "--master",
        default="local[*]",
        help="Spark master, or a Spark Connect server, sc://host:port (default: %(default)s)",
    )
    spark.add_argument("--spark-ui", action="store_true",
                       help="serve Spark's own pages about the job while it runs")  # fmt: skip
    spark.add_argument("--driver-memory", metavar="SIZE",
                       help="of Spark's driver, like 2g; with --master local[...] all work is "
                       "done in it (default: a quarter of the machine's, 1g to 8g)")  # fmt: skip
    spark.add_argument("--cores", metavar="N",
                       help="tasks at once on this machine, or cores of a spark:// cluster "
                       "(default: all)")  # fmt: skip
    spark.add_argument("--executor-memory", metavar="SIZE", help="of each executor of a cluster")
    spark.add_argument("--executor-cores", metavar="N", help="of each executor of a cluster")
    spark.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE",
                       help="a setting of Spark that a job does not set itself; may be "
                       "repeated")  # fmt: skip
    spark.add_argument("--verbose", action="store_true",
                       help="say where Spark's log is, also if the job goes well")  # fmt: skip
    parser.set_defaults(
        warm=None, gets=None, logs=None, answer={}, is_served=False,
        give_up=leases.interrupt_this_process,
    )  # fmt: skip
    jobs = parser.add_subparsers(dest="job", required=True)

    job = jobs.add_parser("ingest", parents=[common, spark], help="load raw objects into a table")
    job.add_argument(
        "--from",
        dest="source",
        action="append",
        required=True,
        metavar="PLACE",
        help="s3://bucket/prefix, ./folder or /a/file, also with * and **; @FILE for "
        "a list of them; may be repeated; or table: or view:lake.ns.name, or kafka:TOPIC",
    )
    job.add_argument("--jdbc-table", metavar="NAME",
                     help="with --from jdbc:...: the table, as SQL names it")  # fmt: skip
    job.add_argument("--jdbc-query", metavar="SQL", help="with --from jdbc:...: a SELECT instead")
    job.add_argument("--watermark", metavar="COLUMN",
                     help="with --from jdbc:...: whole numbers that only grow; later loads read "
                     "the rows above the last one")  # fmt: skip
    job.add_argument("--jdbc-jar", metavar="FILE", help="the driver of the database")
    job.add_argument("--jdbc-properties", metavar="FILE",
                     help="lines NAME=VALUE, such as user and password")  # fmt: skip
    job.add_argument("--jdbc-timeout", metavar="TIME",
                     help="how long the database may take to answer a query, like 10m; 0s for any "
                     "time (default: 1h)")  # fmt: skip
    job.add_argument("--bootstrap", metavar="HOST:PORT[,HOST:PORT]",
                     help="with --from kafka:TOPIC: some of the brokers")  # fmt: skip
    job.add_argument("--kafka-properties", metavar="FILE",
                     help="lines NAME=VALUE for Kafka's client, such as sasl.password")  # fmt: skip
    job.add_argument(
        "--kafka-columns",
        metavar="PART[,PART]",
        help="parts of records to store: " + ", ".join(settings.RECORD_COLUMNS),
    )
    job.add_argument("--avro-schema", metavar="FILE",
                     help="with --from kafka:TOPIC --format avro: of the values")  # fmt: skip
    job.add_argument("--max-records", type=int, metavar="NUMBER",
                     help="with --from kafka:TOPIC: of one load")  # fmt: skip
    job.add_argument("--lost-records", choices=settings.LOST_RECORDS,
                     help="where a topic has dropped records that were not loaded: fail the load, "
                     "or go on with the next ones (default: fail)")  # fmt: skip
    job.add_argument("--to", required=True, help="warehouse.namespace.table")
    job.add_argument(
        "--format",
        choices=files.ALL_FORMATS,
        help="of all files (default: csv), or of a topic's values (default: json)",
    )
    job.add_argument("--partition-by", help="for a new table: column, month(c), bucket(16, c), ...")
    job.add_argument("--mode", choices=settings.MODES, default="append")
    job.add_argument("--key", metavar="COLUMN[,COLUMN]",
                     help="with --mode merge: the columns that identify a row")  # fmt: skip
    job.add_argument("--order-by", metavar="COLUMN",
                     help="with --mode merge: the greatest is the newest row of a key; of a topic, "
                     "without it, the last record of a key within its partition")  # fmt: skip
    job.add_argument("--delete-flag", metavar="COLUMN",
                     help="with --mode merge: where it is true, the row is removed; then a topic's "
                     "records without a value remove none")  # fmt: skip
    job.add_argument("--schema", metavar="FILE|TABLE",
                     help="types of columns: a file of lines `name type`, or a table")  # fmt: skip
    job.add_argument("--on-error", choices=settings.ON_ERROR, default="fail",
                     help="what a row does that cannot be read: fail the load, or go to "
                     f"TABLE{rejects.SUFFIX} with its line and reason "
                     "(default: %(default)s)")  # fmt: skip
    job.add_argument("--dry-run", action="store_true",
                     help="show what a load would do; write nothing")  # fmt: skip
    job.add_argument("--engine", choices=settings.ENGINES, default="auto",
                     help="arrow: without Java, for small sources; auto: by size")  # fmt: skip
    job.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                     help="an option of Spark's reader, like nullValue=NA")  # fmt: skip

    job.add_argument("--follow", action="store_true",
                     help="go on: load new objects as they arrive, until Ctrl-C")  # fmt: skip
    job.add_argument("--every", metavar="TIME",
                     help="with --follow: how often to look, like 10s, 5m, 1h "
                     f"(default: {following.EVERY})")  # fmt: skip
    job.add_argument("--broken-sources", choices=("fail", "retry"),
                     help="with --follow: what a source that cannot be loaded does: end the job, "
                     "or be left out and tried again later (default: retry)")  # fmt: skip

    job = jobs.add_parser("compact", parents=[common, spark], help="rewrite small data files")
    job.add_argument("--table", required=True, help="warehouse.namespace.table")
    job.add_argument("--target-file-size-mib", type=int)
    job.add_argument("--min-input-files", type=int)
    job.add_argument("--strategy", choices=maintenance.STRATEGIES,
                     help="sort and z-order use the table's sort order; auto sorts if it has one "
                     "(default: the table's maintenance settings)")  # fmt: skip
    job.add_argument("--dry-run", action="store_true", help="say what it would do; write nothing")

    job = jobs.add_parser("expire", parents=[common, spark], help="expire old snapshots")
    job.add_argument("--table", required=True, help="warehouse.namespace.table")
    job.add_argument("--older-than", help="7d, 12h, or a time like 2026-01-01T00:00:00+00:00")
    job.add_argument("--retain-last", type=int, help="snapshots to keep at least")
    job.add_argument("--dry-run", action="store_true", help="say what it would do; write nothing")

    job = jobs.add_parser("manifests", parents=[common, spark], help="rewrite a table's manifests")
    job.add_argument("--table", required=True, help="warehouse.namespace.table")
    job.add_argument("--dry-run", action="store_true", help="say what it would do; write nothing")

    job = jobs.add_parser("statistics", parents=[common, spark],
                          help="store how many distinct values columns have")  # fmt: skip
    job.add_argument("--table", required=True, help="warehouse.namespace.table")
    job.add_argument("--columns", metavar="COLUMN[,COLUMN]", help="default: all of plain types")
    job.add_argument("--dry-run", action="store_true", help="say what it would do; write nothing")

    job = jobs.add_parser("orphans", parents=[common],
                          help="let the server sweep one table: hide and free files that nothing "
                          "references, once their days are over")  # fmt: skip
    job.add_argument("--table", required=True, help="warehouse.namespace.table")
    job.add_argument("--dry-run", action="store_true", help="say what it would do; change nothing")

    job = jobs.add_parser("replicate", parents=[common, spark],
                          help="copy a table with its history to another catalog")  # fmt: skip
    job.add_argument("--table", required=True, help="warehouse.namespace.table")
    job.add_argument("--to", required=True, metavar="URI|ARN",
                     help="of the target's REST catalog, or of a table bucket of S3 "
                     "Tables")  # fmt: skip
    job.add_argument("--to-warehouse", metavar="NAME", help="the REST catalog's warehouse")
    job.add_argument("--to-namespace", metavar="NAME", help="of the copy (default: the table's)")
    job.add_argument("--to-table", metavar="NAME", help="of the copy (default: the table's)")
    job.add_argument("--location", metavar="S3_URI",
                     help="of the copy in a REST catalog (default: "
                     "s3://WAREHOUSE/namespace/table)")  # fmt: skip
    job.add_argument("--s3-endpoint", metavar="URL",
                     help="of the target's store (default: its REST catalog names it, or AWS's "
                     "configuration)")  # fmt: skip

    job = jobs.add_parser("samples", parents=[common], help="load a small data set, without Spark")
    job.add_argument("--warehouse", default="lake")

    folder = _Parser(add_help=False)
    folder.add_argument("--pipelines", default="pipelines", metavar="FOLDER",
                        help="the folder of NAME.toml (default: %(default)s)")  # fmt: skip
    job = jobs.add_parser("run", parents=[common, spark, folder], help="run a pipeline")
    job.add_argument("name", help="of pipelines/NAME.toml")
    job.add_argument("--dry-run", action="store_true",
                     help="show what its load would do, without its checks; write "
                     "nothing")  # fmt: skip
    job.add_argument("--run-id", help=argparse.SUPPRESS)
    job.add_argument("--earlier", default="[]", help=argparse.SUPPRESS)

    jobs.add_parser("list", parents=[common, folder], help="list the pipelines")

    job = jobs.add_parser("history", parents=[common], help="list the latest runs of pipelines")
    job.add_argument("name", nargs="?", help="of one pipeline alone")
    job.add_argument("--warehouse", default="lake")
    job.add_argument("--limit", type=int, default=20)

    job = jobs.add_parser("show", parents=[common], help="show one run")
    job.add_argument("run_id", metavar="RUN")
    job.add_argument("--warehouse", default="lake")

    job = jobs.add_parser("cancel", parents=[common], help="end a run that goes on")
    job.add_argument("run_id", metavar="RUN")

    text = "do jobs from standard input, one a line, in one session of Spark"
    jobs.add_parser("shell", parents=[common, spark], help=text)

    job = jobs.add_parser("serve", parents=[common, spark], help="do the jobs that a server sends")
    job.add_argument("--memory-mib", type=int, help="as --driver-memory, in MiB")
    job.add_argument("--logs", help="folder of the logs of Spark")
    job.add_argument("--folder", default=".", help="where relative paths of a job begin")
    return parser


def check_least(options: argparse.Namespace, *names: str) -> None:
    """Raise BadArgument for an option below 1, or beyond what Iceberg's library counts to."""
    for name in names:
        value = getattr(options, name.removeprefix("--").replace("-", "_"))
        if value is not None and value < 1:
            raise errors.BadArgument(f"{name} is {value}; it must be at least 1")
        if value is not None and value > COUNT_MAX:
            raise errors.BadArgument(f"{name} is {value}; it must be at most {COUNT_MAX}")


def read_list(path: str) -> str:
    """Return the text of a list of sources."""
    return Path(path).read_text(encoding="utf-8")


def schema(server: settings.ServerEndpoint, text: str, file_format: str) -> dict[str, str]:
    """Return the column types that a file or a table names. Raises BadArgument, NoServer."""
    if file_format not in reading.TYPED_BY_LOAD:
        raise errors.BadArgument(f"--schema: {file_format} files have a schema of their own")
    if Path(text).is_file():
        try:
            return reading.parse_schema(Path(text).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise errors.BadArgument(f"--schema {text} cannot be read: {error}") from error
    try:
        table = settings.parse_table(text)
    except errors.BadArgument as error:
        raise errors.BadArgument(
            f"--schema {text!r} is neither a file nor a table like lake.sales.orders"
        ) from error
    return {
        name: reading.schema_type(name, str(column_type))
        for name, column_type in loads.columns(server, table).items()
    }


def reader_options(pairs: list[str]) -> dict[str, str]:
    """Return the options of Spark's reader, NAME=VALUE each. Raises BadArgument."""
    options = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise errors.BadArgument(f"--option {pair!r} is not NAME=VALUE")
        options[name] = value
    return options


def ago(age: datetime.timedelta) -> datetime.datetime:
    """Return the time an age ago, at least the year 1."""
    now = datetime.datetime.now(datetime.UTC)
    first = datetime.datetime.min.replace(tzinfo=datetime.UTC)
    return now - min(age, now - first)


def moment(text: str) -> datetime.datetime:
    """Return the time that an age like 7d or a time in ISO 8601 means. Raises BadArgument."""
    age = AGE.match(text)
    if age:
        try:
            span = datetime.timedelta(**{AGE_UNITS[age.group(2)]: int(age.group(1))})
            return datetime.datetime.now(datetime.UTC) - span
        except OverflowError as error:
            raise errors.BadArgument(f"--older-than {text!r} is before the year 1") from error
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise errors.BadArgument(
            f"--older-than {text!r} is neither an age like 7d nor a time like 2026-01-01T00:00:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
