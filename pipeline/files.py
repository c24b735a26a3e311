"""rule: a pipeline's file, `pipelines/NAME.toml`: sources, target, transforms, checks, retries.

target = "lake.sales.orders"
mode = "merge"                     # append, replace or merge
on_error = "reject"                # unreadable rows go to lake.sales.orders__rejected
key = ["id"]
order_by = "changed_at"
retries = 2
keep_runs_days = 90                # older runs leave system.pipeline_runs; absent: none does
schedule = "30 2 * * *"            # when the server runs it (UTC), or after = "NAME"
run_as = "ana"                     # whose rights it has then

[source]
from = ["s3://raw/orders/"]        # or "@orders.txt": a list, beside this file
format = "csv"
options = { nullValue = "NA" }

[source]                           # or another table: from = ["table:lake.sales.events"]
from = ["jdbc:postgresql://db/shop"]
table = "public.orders"            # or query = "select ..."
watermark = "id"
jar = "/opt/postgresql.jar"
properties = "/etc/shop.properties"
timeout = "10m"                    # how long it may take to answer a query; 1h by default

[source]                           # or a topic of Kafka
from = ["kafka:orders"]
bootstrap = "broker:9092"
format = "json"                    # csv, avro with avro_schema = "FILE", or raw
columns = ["offset", "timestamp"]  # stored beside the values, as kafka_offset, kafka_timestamp
properties = "/etc/kafka.properties"

[[transform]]
name = "clean"
sql = "select * from source where id is not null"

[[check]]
name = "no negative amounts"
sql = "select * from target where amount < 0"
severity = "warn"                  # or stop, which is the default
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, get_args

from pipeline import errors, jobs, reading, records, settings

ALL_FORMATS = tuple(dict.fromkeys((*settings.FORMATS, *settings.RECORD_FORMATS)))
RETRIES_MAX = 10
KEEP_RUNS_DAYS_MAX = 36_500
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_TEXT, _TEXTS, _NUMBER, _TABLE, _TABLES = "a text", "texts", "a number", "a table", "tables"
_KEYS: Mapping[str, str] = {
    "description": _TEXT, "target": _TEXT, "mode": _TEXT, "key": _TEXTS, "order_by": _TEXT,
    "delete_flag": _TEXT, "partition_by": _TEXT, "retries": _NUMBER, "source": _TABLE,
    "transform": _TABLES, "check": _TABLES, "schedule": _TEXT, "after": _TEXT, "run_as": _TEXT,
    "keep_runs_days": _NUMBER, "on_error": _TEXT,
}  # fmt: skip
_SOURCE_KEYS: Mapping[str, str] = {
    "from": _TEXTS, "format": _TEXT, "options": _TABLE, "schema": _TABLE, "table": _TEXT,
    "query": _TEXT, "watermark": _TEXT, "jar": _TEXT, "properties": _TEXT, "bootstrap": _TEXT,
    "columns": _TEXTS, "lost_records": _TEXT, "max_records": _NUMBER, "avro_schema": _TEXT,
    "timeout": _TEXT,
}  # fmt: skip
_TRANSFORM_KEYS: Mapping[str, str] = {"name": _TEXT, "sql": _TEXT}
_CHECK_KEYS: Mapping[str, str] = {"name": _TEXT, "sql": _TEXT, "severity": _TEXT}


ReadList: TypeAlias = Callable[[str], str]
"""Returns the text of a list of sources, by its path. Raises OSError, UnicodeDecodeError."""


def no_list(path: str) -> str:
    """Stand in where no lists are read. Raises BadArgument."""
    raise errors.BadArgument(f"@{path} is a list of sources, and none is read here")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """A pipeline: its name, its load, and how often a run starts again after a failure.

    schedule: when the server runs it, as its file says; the server reads it.
    keep_runs_days: how long its runs stay in the table of runs; None keeps them all.
    """

    name: str
    description: str
    load: jobs.Load
    retries: int
    schedule: str = ""
    keep_runs_days: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeNames:
    """What a user calls the parts of a merge: flags of a command, or keys of a file."""

    mode: str
    key: str
    order_by: str
    flag: str


FLAGS = MergeNames(mode="--mode", key="--key", order_by="--order-by", flag="--delete-flag")
KEYS = MergeNames(mode="mode", key="key", order_by="order_by", flag="delete_flag")


def check_name(name: str) -> None:
    """Raise BadArgument for a name that is not one of a pipeline's file."""
    if NAME.fullmatch(name) is None:
        raise errors.BadArgument(
            f"{name!r} is not a pipeline's name: letters, digits, _ and -, as in NAME.toml"
        )


def parse(name: str, text: str, read_list: ReadList = no_list) -> Pipeline:
    """Parse a pipeline's file. Raises BadArgument, which names the key.

    read_list: for lists of sources that the file names, relative to it.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.BadArgument(f"{name}.toml: {error}") from error
    try:
        return _pipeline(name, document, read_list)
    except errors.BadArgument as error:
        raise errors.BadArgument(f"{name}.toml: {error}") from error


def merge(
    mode: str,
    *,
    key: Iterable[str],
    order_by: str | None,
    delete_flag: str | None,
    names: MergeNames,
) -> jobs.Merge | None:
    """Return how a load of this mode matches rows. Raises BadArgument for what does not fit it.

    names: what the user calls the values.
    """
    key = tuple(part.strip() for part in key)
    for name, column in ((names.order_by, order_by), (names.flag, delete_flag)):
        if column is not None and not column.strip():
            raise errors.BadArgument(f"{name} is empty: it names a column")
    if mode != "merge":
        for name, value in (
            (names.key, key),
            (names.order_by, order_by),
            (names.flag, delete_flag),
        ):
            if value:
                raise errors.BadArgument(f"{name} is for {names.mode} merge")
        return None
    if not key or not all(key):
        raise errors.BadArgument(
            f"{names.mode} merge needs {names.key}: the columns that identify a row"
        )
    columns = [part.lower() for part in (*key, *([delete_flag] if delete_flag else []))]
    for name in columns:
        if columns.count(name) > 1:
            raise errors.BadArgument(f"{names.key} and {names.flag} name column {name!r} twice")
    return jobs.Merge(key=key, order_by=order_by, delete_flag=delete_flag)


@dataclass(frozen=True, kw_only=True, slots=True)
class JdbcArguments:
    """What a user says about a database, by the names of the command's flags or the file's keys."""

    table: str | None = None
    query: str | None = None
    watermark: str | None = None
    jar: str | None = None
    properties: str | None = None
    timeout: str | None = None


JDBC_FLAGS: Mapping[str, str] = {
    "table": "--jdbc-table", "query": "--jdbc-query", "watermark": "--watermark",
    "jar": "--jdbc-jar", "properties": "--jdbc-properties", "timeout": "--jdbc-timeout",
}  # fmt: skip
JDBC_KEYS: Mapping[str, str] = {
    "table": "source.table", "query": "source.query", "watermark": "source.watermark",
    "jar": "source.jar", "properties": "source.properties", "timeout": "source.timeout",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaArguments:
    """What a user says about a topic, by the names of the command's flags or the file's keys."""

    bootstrap: str | None = None
    properties: str | None = None
    columns: str | None = None
    lost_records: str | None = None
    max_records: int | None = None
    avro_schema: str | None = None


KAFKA_FLAGS: Mapping[str, str] = {
    "bootstrap": "--bootstrap", "properties": "--kafka-properties", "columns": "--kafka-columns",
    "lost_records": "--lost-records", "max_records": "--max-records",
    "avro_schema": "--avro-schema",
}  # fmt: skip
KAFKA_KEYS: Mapping[str, str] = {
    "bootstrap": "source.bootstrap", "properties": "source.properties",
    "columns": "source.columns", "lost_records": "source.lost_records",
    "max_records": "source.max_records", "avro_schema": "source.avro_schema",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceNames:
    """What a user calls the parts of a source: flags of a command, or keys of a file."""

    format: str
    jdbc: Mapping[str, str]
    kafka: Mapping[str, str]


FLAGS_OF_SOURCES = SourceNames(format="--format", jdbc=JDBC_FLAGS, kafka=KAFKA_FLAGS)
KEYS_OF_SOURCES = SourceNames(format="source.format", jdbc=JDBC_KEYS, kafka=KAFKA_KEYS)


def relation(
    texts: Sequence[str],
    target: settings.TargetTable,
    *,
    of_files: Mapping[str, bool],
    jdbc: JdbcArguments,
    kafka: KafkaArguments,
    file_format: str | None,
    names: SourceNames,
) -> settings.Relation | None:
    """Return the source of a load if it is no place of files. Raises BadArgument.

    of_files: for what a user can say about files and topics alone, whether it was said.
    file_format: None if it was not said. names: what the user calls all of them.
    """
    databases = [text for text in texts if text.startswith(settings.JDBC_BEGINNING)]
    topics = [topic for text in texts if (topic := settings.parse_topic(text)) is not None]
    named = [each for text in texts if (each := settings.parse_catalog_source(text)) is not None]
    for url in databases:
        settings.check_jdbc_url(url)
    if not databases:
        _refuse(jdbc, names.jdbc, "a source like jdbc:postgresql://host/name")
    if not topics:
        _refuse(kafka, names.kafka, "a source like kafka:orders")
        if file_format == "raw":
            raise errors.BadArgument(f"{names.format} raw is for a topic of Kafka")
    if not databases and not topics and not named:
        return None
    source: settings.Relation
    if named:
        source = named[0]
    elif databases:
        source = _database(databases[0], jdbc, names.jdbc)
    else:
        source = _topic(topics[0], file_format or "json", kafka, names.kafka)
    if len(texts) > 1:
        raise errors.BadArgument(f"{source} must be the only source of its load")
    if isinstance(source, settings.KafkaSource):
        return source
    for name, is_used in {**of_files, names.format: file_format is not None}.items():
        if is_used:
            raise errors.BadArgument(f"{name} is for files, and {source} has none")
    if isinstance(source, settings.TableSource) and source.table == target:
        raise errors.BadArgument(f"{target.full} cannot be the source of its own rows")
    return source


def reader_of(
    source: settings.Relation | None, file_format: str, options: Mapping[str, str]
) -> reading.SourceReader:
    """Return the reader of a load's sources. source: of `relation`. Raises BadArgument."""
    if source is None:
        return reading.reader(cast(settings.Format, file_format), options)
    if isinstance(source, settings.KafkaSource):
        return reading.of_records(source.format, options)
    return reading.of_rows()


def _refuse(
    arguments: JdbcArguments | KafkaArguments, names: Mapping[str, str], whose: str
) -> None:
    """Raise BadArgument if something was said that another source needs."""
    for part, name in names.items():
        if getattr(arguments, part) is not None:
            raise errors.BadArgument(f"{name} is for {whose}")


def _topic(
    topic: str, record_format: str, kafka: KafkaArguments, names: Mapping[str, str]
) -> settings.KafkaSource:
    if record_format not in settings.RECORD_FORMATS:
        raise errors.BadArgument(
            f"records of Kafka have no format {record_format}; there are "
            + ", ".join(settings.RECORD_FORMATS)
        )
    if kafka.bootstrap is None:
        raise errors.BadArgument(
            f"{settings.KAFKA_BEGINNING}{topic} needs {names['bootstrap']}: HOST:PORT of a broker"
        )
    if kafka.max_records is not None and kafka.max_records < 1:
        raise errors.BadArgument(f"{names['max_records']} must be at least 1")
    lost_records = kafka.lost_records or "fail"
    return settings.KafkaSource(
        topic=topic,
        bootstrap=kafka.bootstrap,
        format=record_format,
        columns=() if kafka.columns is None else settings.parse_record_columns(kafka.columns),
        properties_file=kafka.properties,
        lost_records=cast(
            settings.LostRecords,
            _one_of(lost_records, settings.LOST_RECORDS, names["lost_records"]),
        ),
        records_max=kafka.max_records,
        avro_schema_file=kafka.avro_schema,
    )


def _database(url: str, jdbc: JdbcArguments, names: Mapping[str, str]) -> settings.JdbcSource:
    if (jdbc.table is None) == (jdbc.query is None):
        raise errors.BadArgument(f"{url} needs {names['table']} or {names['query']}, one of them")
    if jdbc.jar is None:
        raise errors.BadArgument(f"{url} needs {names['jar']}: the jar of the database's driver")
    return settings.JdbcSource(
        url=url,
        jar=jdbc.jar,
        table=jdbc.table,
        query=jdbc.query,
        watermark=jdbc.watermark,
        properties_file=jdbc.properties,
        answers_within_seconds=settings.JDBC_ANSWER_SECONDS
        if jdbc.timeout is None
        else settings.parse_seconds(jdbc.timeout, names["timeout"]),
    )


def places(texts: Iterable[str], read_list: ReadList, option: str) -> tuple[settings.Place, ...]:
    """Return the places that texts name; `@FILE` stands for a list of them. Raises BadArgument.

    option: what the user calls the texts.
    """
    named: list[settings.Place] = []
    for text in texts:
        if not text.startswith("@"):
            named.append(settings.parse_place(text))
            continue
        try:
            listed = read_list(text[1:])
        except (OSError, UnicodeDecodeError) as error:
            raise errors.BadArgument(
                f"{option} {text}: the list cannot be read: {error}"
            ) from error
        try:
            named.extend(settings.parse_list(listed))
        except errors.BadArgument as error:
            raise errors.BadArgument(f"{option} {text}: {error}") from error
    return tuple(named)


def _pipeline(name: str, document: Mapping[str, Any], read_list: ReadList) -> Pipeline:
    _check_keys(document, _KEYS, "", needed=("target", "source"))
    source = document["source"]
    _check_keys(source, _SOURCE_KEYS, "source.", needed=("from",))
    mode = _one_of(document.get("mode", "append"), settings.MODES, "mode")
    if "schedule" in document and "after" in document:
        raise errors.BadArgument("schedule and after exclude each other")
    is_topic = any(text.startswith(settings.KAFKA_BEGINNING) for text in source["from"])
    file_format = _one_of(
        source.get("format", "json" if is_topic else "csv"), ALL_FORMATS, "source.format"
    )
    if "schema" in source and file_format not in reading.TYPED_BY_LOAD:
        raise errors.BadArgument(f"source.schema: {file_format} files have a schema of their own")
    retries = document.get("retries", 0)
    if not 0 <= retries <= RETRIES_MAX:
        raise errors.BadArgument(f"retries is {retries}; it must be 0 to {RETRIES_MAX}")
    keep_runs_days = document.get("keep_runs_days")
    if keep_runs_days is not None and not 1 <= keep_runs_days <= KEEP_RUNS_DAYS_MAX:
        raise errors.BadArgument(
            f"keep_runs_days is {keep_runs_days}; it must be 1 to {KEEP_RUNS_DAYS_MAX}"
        )
    transforms = tuple(
        jobs.SqlTransform(name=each["name"], sql=each["sql"])
        for each in _tables(document, "transform", _TRANSFORM_KEYS)
    )
    _check_names(transforms)
    target = settings.parse_table(document["target"])
    rows = relation(
        source["from"],
        target,
        of_files={
            **{f"source.{key}": key in source for key in ("options", "schema")},
            "on_error": document.get("on_error", "fail") != "fail",
        },
        jdbc=JdbcArguments(
            **{
                part: source.get(part) for part in ("table", "query", "watermark", "jar", "timeout")
            },
            properties=None if is_topic else source.get("properties"),
        ),
        kafka=KafkaArguments(
            **{part: source.get(part) for part in ("bootstrap", "lost_records", "avro_schema")},
            columns=",".join(source["columns"]) if "columns" in source else None,
            max_records=source.get("max_records"),
            properties=source.get("properties") if is_topic else None,
        ),
        file_format=source.get("format"),
        names=KEYS_OF_SOURCES,
    )
    load = jobs.Load(
        places=places(source["from"], read_list, "source.from") if rows is None else (),
        relation=rows,
        reader=reader_of(
            rows,
            file_format,
            {key: _option(key, value) for key, value in source.get("options", {}).items()},
        ),
        table=target,
        partitions=settings.parse_partitions(document["partition_by"])
        if "partition_by" in document
        else (),
        mode=cast(settings.Mode, mode),
        types={
            column: reading.schema_type(column, str(column_type))
            for column, column_type in source.get("schema", {}).items()
        },
        merge=merge(
            mode,
            key=document.get("key", ()),
            order_by=document.get("order_by"),
            delete_flag=document.get("delete_flag"),
            names=KEYS,
        ),
        transforms=transforms,
        checks=tuple(
            jobs.SqlCheck(
                name=each["name"],
                sql=each["sql"],
                severity=cast(
                    jobs.Severity,
                    _one_of(
                        each.get("severity", "stop"), get_args(jobs.Severity), "check.severity"
                    ),
                ),
            )
            for each in _tables(document, "check", _CHECK_KEYS)
        ),
        on_error=cast(
            settings.OnError,
            _one_of(document.get("on_error", "fail"), settings.ON_ERROR, "on_error"),
        ),
    )
    load = records.prepared(load)
    if load.on_error == "reject":
        reading.check_rejectable(load.reader)
    return Pipeline(
        name=name,
        description=document.get("description", ""),
        load=load,
        retries=retries,
        keep_runs_days=keep_runs_days,
        schedule=f"after {document['after']}"
        if "after" in document
        else document.get("schedule", ""),
    )


def _option(name: str, value: Any) -> str:
    """Return an option of Spark's reader as Spark writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise errors.BadArgument(f"source.options.{name} must be a text, a number, true or false")
    return str(value)


def _check_names(transforms: Iterable[jobs.SqlTransform]) -> None:
    """Raise BadArgument for names of transforms that Spark would not take or tell apart."""
    taken = {jobs.SOURCE_VIEW, jobs.TARGET_VIEW}
    for transform in transforms:
        if not settings.is_word(transform.name):
            raise errors.BadArgument(
                f"transform.name {transform.name!r} must have letters, digits and _ alone"
            )
        if transform.name.lower() in taken:
            raise errors.BadArgument(f"transform.name {transform.name!r} is taken")
        taken.add(transform.name.lower())


def _tables(
    document: Mapping[str, Any], name: str, keys: Mapping[str, str]
) -> Iterable[Mapping[str, Any]]:
    for table in document.get(name, ()):
        _check_keys(table, keys, f"{name}.", needed=("name", "sql"))
        yield table


def _check_keys(
    table: Mapping[str, Any], keys: Mapping[str, str], prefix: str, *, needed: Iterable[str]
) -> None:
    for name, value in table.items():
        expected = keys.get(name)
        if expected is None:
            raise errors.BadArgument(f"{prefix}{name} is no key; there are: {', '.join(keys)}")
        if not _is(expected, value):
            raise errors.BadArgument(f"{prefix}{name} must be {expected}")
    for name in needed:
        if name not in table:
            raise errors.BadArgument(f"{prefix}{name} is missing")


def _is(expected: str, value: Any) -> bool:
    if expected in (_TEXTS, _TABLES):
        item = _TEXT if expected == _TEXTS else _TABLE
        return isinstance(value, list) and bool(value) and all(_is(item, each) for each in value)
    if expected == _NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str if expected == _TEXT else dict)


def _one_of(value: str, values: Iterable[str], name: str) -> str:
    if value not in values:
        raise errors.BadArgument(f"{name} is {value!r}; it must be one of {', '.join(values)}")
    return value
