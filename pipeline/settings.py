"""rule: a job's arguments, and the Spark settings that follow from them.

`lake.ns.table`, `s3://bucket/prefix`, `./folder`, `table:lake.ns.table` and `month(time_hour)` are
parsed here. Spark's catalog gets endpoint, path style, region and keys from the server's own
configuration response; only S3A, which reads the raw files, needs them as settings.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pipeline import errors, resources

Format: TypeAlias = Literal["csv", "json", "parquet", "orc", "avro"]
FORMATS: tuple[Format, ...] = ("csv", "json", "parquet", "orc", "avro")
Engine: TypeAlias = Literal["auto", "spark", "arrow"]
ENGINES: tuple[Engine, ...] = ("auto", "spark", "arrow")
Mode: TypeAlias = Literal["append", "replace", "merge"]
MODES: tuple[Mode, ...] = ("append", "replace", "merge")
OnError: TypeAlias = Literal["fail", "reject"]
ON_ERROR: tuple[OnError, ...] = ("fail", "reject")
"""What a row does that cannot be read: fail its load, or go to the table of rejected rows."""
RecordFormat: TypeAlias = Literal["json", "csv", "avro", "raw"]
RECORD_FORMATS: tuple[RecordFormat, ...] = ("json", "csv", "avro", "raw")
"""What the values of a topic's records are; raw: bytes, loaded as they are."""
RecordColumn: TypeAlias = Literal[
    "key", "value", "topic", "partition", "offset", "timestamp", "headers"
]
RECORD_COLUMNS: tuple[RecordColumn, ...] = get_args(RecordColumn)
LostRecords: TypeAlias = Literal["fail", "skip"]
LOST_RECORDS: tuple[LostRecords, ...] = ("fail", "skip")
"""What a load does where a topic has dropped records that the table does not have."""

SCHEME_BEGINNING, SCHEME_DIGITS = "s3-", 16
FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_WORD = r"[^\s.`'\"/]+"
_TABLE = re.compile(rf"({_WORD})\.((?:{_WORD}\.)+)({_WORD})\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_TRANSFORM = re.compile(r"(\w+)\(\s*(?:(\d+)\s*,\s*)?([^(),]+?)\s*(?:,\s*(\d+)\s*)?\)\Z")
_WILDCARD = re.compile(r"(\*\*/|\*\*|\*)")
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
LOCAL_BEGINNINGS = ("/", "./", "../", "~/", "file:///")
TABLE_BEGINNING, VIEW_BEGINNING = "table:", "view:"
JDBC_BEGINNING = "jdbc:"
KAFKA_BEGINNING = "kafka:"
JDBC_URL_CHARACTERS_MAX = 2000
_CREDENTIALS = re.compile(r"(?i)(?:passw|pwd|passphrase|secret|token)[\w.]*\s*=|[^:/]@")
LOCAL_FOLDERS_KEY = "spark.local.dir"
LOCAL_FOLDERS_VARIABLES = ("SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS")
UNITS = ("year", "month", "day", "hour")
SIZED = ("bucket", "truncate")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerEndpoint:
    """The server's URL, its region, and a key pair for it.

    session_token, bearer: of temporary credentials, for signatures and for the catalog; else "".
    """

    url: str
    access_key: str
    secret_key: str
    region: str
    session_token: str = ""
    bearer: str = ""

    @property
    def iceberg(self) -> str:
        """The base URI of the Iceberg REST catalog."""
        return f"{self.url}/iceberg"


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetTable:
    """A table: its warehouse (table bucket), its namespace's levels, its name."""

    warehouse: str
    namespace: tuple[str, ...]
    name: str

    @property
    def dotted(self) -> str:
        """namespace.name, as in the REST catalog."""
        return ".".join((*self.namespace, self.name))

    @property
    def full(self) -> str:
        """warehouse.namespace.name, as in a job's arguments."""
        return f"{self.warehouse}.{self.dotted}"

    @property
    def quoted(self) -> str:
        """The name for Spark SQL, each part in back-ticks."""
        parts = (self.warehouse, *self.namespace, self.name)
        return ".".join(f"`{part}`" for part in parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectPrefix:
    """A prefix of a bucket. pattern: a regular expression for whole keys; None takes every key.
    wildcards: the text that has the pattern's wildcards."""

    bucket: str
    prefix: str
    pattern: str | None = None
    wildcards: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.wildcards or f"s3://{self.bucket}/{self.prefix}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalPath:
    """A file or folder of this machine. pattern, wildcards: as for ObjectPrefix, of whole paths.
    folders: of the folders that may hold such files; None takes every folder."""

    path: str
    pattern: str | None = None
    folders: str | None = None
    wildcards: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.wildcards or self.path


Place: TypeAlias = ObjectPrefix | LocalPath


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSource:
    """Another table as the source of a load: `table:lake.sales.orders`."""

    table: TargetTable

    def __str__(self) -> str:
        return f"{TABLE_BEGINNING}{self.table.full}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewSource:
    """A view as the source of a load: `view:lake.sales.totals`. view: its name."""

    view: TargetTable

    def __str__(self) -> str:
        return f"{VIEW_BEGINNING}{self.view.full}"


_TIME = re.compile(r"([0-9]{1,7})([smh])\Z")
_TIME_UNITS = {"s": 1, "m": 60, "h": 3600}
TIME_SECONDS_MAX: Final = 24 * 60 * 60
JDBC_ANSWER_SECONDS: Final = 60 * 60
"""How long a database may take to answer a query, unless a user says otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JdbcSource:
    """A table or a query of a database as the source of a load.

    watermark: a column of whole numbers that only grows. jar: the driver's. properties_file: of
    lines NAME=VALUE, such as user and password. answers_within_seconds: how long the database may
    take to answer a query, unless the file says it as queryTimeout; 0 for any time.
    """

    url: str
    jar: str
    table: str | None = None
    query: str | None = None
    watermark: str | None = None
    properties_file: str | None = None
    answers_within_seconds: int = JDBC_ANSWER_SECONDS

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaSource:
    """A topic of Kafka as the source of a load: `kafka:orders`.

    bootstrap: HOST:PORT of some brokers, with commas. format: of the records' values. columns:
    what else of a record is loaded, beside a value or, for raw, as the columns of a row.
    properties_file: of lines NAME=VALUE for Kafka's client. records_max: of one load.
    avro_schema_file: of the values, as JSON.
    """

    topic: str
    bootstrap: str
    format: RecordFormat = "json"
    columns: tuple[RecordColumn, ...] = ()
    properties_file: str | None = None
    lost_records: LostRecords = "fail"
    records_max: int | None = None
    avro_schema_file: str | None = None

    def __str__(self) -> str:
        return f"{KAFKA_BEGINNING}{self.topic}"


Relation: TypeAlias = TableSource | ViewSource | JdbcSource | KafkaSource
"""A source that is no place of files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionTransform:
    """One partition field: a transform (identity, year, ..., truncate) of a column."""

    name: str
    column: str
    width: int | None = None


def is_word(text: str) -> bool:
    """Return whether a text has letters, digits and _ alone, and begins with no digit."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None


def parse_table(text: str) -> TargetTable:
    """Parse `warehouse.namespace[.namespace...].table`. Raises BadArgument."""
    match = _TABLE.match(text)
    if not match:
        raise errors.BadArgument(
            f"{text!r} is not a table: write warehouse.namespace.table, like lake.sales.orders"
        )
    return TargetTable(
        warehouse=match.group(1),
        namespace=tuple(match.group(2).rstrip(".").split(".")),
        name=match.group(3),
    )


def parse_place(text: str) -> Place:
    """Parse `s3://bucket/prefix`, `./folder` or `/a/path`, also with `*` and `**`.

    `*` stays within one folder, `**` does not. Raises BadArgument.
    """
    if text.startswith(LOCAL_BEGINNINGS) or text in {".", "..", "~"}:
        path = text.removeprefix("file://")
        return LocalPath(
            path=_before_wildcards(path),
            pattern=_pattern(path),
            folders=_pattern_of_folders(path),
            wildcards=text if _pattern(path) else None,
        )
    if text.startswith(KAFKA_BEGINNING):
        raise errors.BadArgument(f"{text!r} must be the only source of its load")
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"s3", "s3a"} or not parts.netloc:
        raise errors.BadArgument(
            f"{text!r} is not a source: write s3://bucket/prefix, or ./{text.lstrip('/')} for a "
            "file or folder of this machine"
            if "://" not in text and text.isprintable()
            else f"{text!r} is not a source: write s3://bucket/prefix"
        )
    key = text.split(parts.netloc, 1)[1].removeprefix("/")
    return ObjectPrefix(
        bucket=parts.netloc,
        prefix=_before_wildcards(key, folder=False),
        pattern=_pattern(key),
        wildcards=text if _pattern(key) else None,
    )


def parse_catalog_source(text: str) -> TableSource | ViewSource | None:
    """Parse `table:warehouse.namespace.name` and `view:`; None for another text.

    Raises BadArgument.
    """
    if text.startswith(TABLE_BEGINNING):
        return TableSource(table=parse_table(text.removeprefix(TABLE_BEGINNING)))
    if text.startswith(VIEW_BEGINNING):
        return ViewSource(view=parse_table(text.removeprefix(VIEW_BEGINNING)))
    return None


def parse_topic(text: str) -> str | None:
    """Return the topic of `kafka:TOPIC`; None for another text. Raises BadArgument."""
    if not text.startswith(KAFKA_BEGINNING):
        return None
    topic = text.removeprefix(KAFKA_BEGINNING)
    if _TOPIC.match(topic) is None or topic in {".", ".."}:
        raise errors.BadArgument(
            f"{text!r} does not name a topic: letters, digits, '.', '_' and '-', as in kafka:orders"
        )
    return topic


def parse_record_columns(text: str) -> tuple[RecordColumn, ...]:
    """Parse `key,offset`: parts of a record. Raises BadArgument."""
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in RECORD_COLUMNS or names.count(name) > 1:
            raise errors.BadArgument(
                f"{text!r} must name parts of a record, each once: {', '.join(RECORD_COLUMNS)}"
            )
    return tuple(name for name in RECORD_COLUMNS if name in names)


def parse_seconds(text: str, option: str) -> int:
    """Return the seconds of a time like `10s`, `5m` or `1h`, at most a day. Raises BadArgument.

    option: what the user calls it.
    """
    match = _TIME.match(text)
    if match is None:
        raise errors.BadArgument(f"{option} {text!r} is not a time like 10s, 5m or 1h")
    seconds = int(match.group(1)) * _TIME_UNITS[match.group(2)]
    if seconds > TIME_SECONDS_MAX:
        raise errors.BadArgument(f"{option} {text} is longer than a day, 24h")
    return seconds


def check_jdbc_url(url: str) -> None:
    """Raise BadArgument for a URL with credentials: it is printed, and kept with the table."""
    if _CREDENTIALS.search(url) is not None:
        raise errors.BadArgument(
            "the JDBC URL has credentials in it; leave them out, and use BOATHOUSE_JDBC_USER and "
            "BOATHOUSE_JDBC_PASSWORD, or --jdbc-properties"
        )
    if len(url) > JDBC_URL_CHARACTERS_MAX or not url.isprintable():
        raise errors.BadArgument("the JDBC URL is too long, or has characters that are not text")


def parse_list(text: str) -> tuple[Place, ...]:
    """Parse a list of sources: one in each line; empty lines and `#` lines are comments."""
    lines = (line.strip() for line in text.splitlines())
    places = tuple(parse_place(line) for line in lines if line and not line.startswith("#"))
    if not places:
        raise errors.BadArgument("the list of sources is empty")
    return places


def _before_wildcards(text: str, *, folder: bool = True) -> str:
    """Return what stands before the first wildcard; for a folder, up to its last slash."""
    match = _WILDCARD.search(text)
    if match is None:
        return text
    before = text[: match.start()]
    return (
        (before.rpartition("/")[0] or ("/" if before.startswith("/") else "."))
        if folder
        else before
    )


def _pattern(text: str) -> str | None:
    """Return the regular expression for a text with wildcards; None for one without."""
    return None if _WILDCARD.search(text) is None else _expression(text)


def _expression(text: str) -> str:
    """Return the regular expression for a text, with wildcards or without."""
    parts = (_WILDCARDS.get(part, re.escape(part)) for part in _WILDCARD.split(text))
    return "".join(parts)


def _pattern_of_folders(text: str) -> str | None:
    """Return the regular expression for the folders above what a text with wildcards names; None
    for a text without."""
    if _WILDCARD.search(text) is None:
        return None
    # `**` stands for folders of any number.
    before, below, _ = text.partition("**")
    parts = before.split("/")
    above = [_expression("/".join(parts[:count])) for count in range(1, len(parts))]
    return "|".join([*above, _expression(before) + ".*"] if below else above)


def parse_partitions(text: str) -> tuple[PartitionTransform, ...]:
    """Parse `month(time_hour), carrier, bucket(16, id)`. Raises BadArgument."""
    return tuple(_parse_transform(part) for part in _split_top(text))


def _split_top(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()]


def _parse_transform(text: str) -> PartitionTransform:
    if not text:
        raise errors.BadArgument("--partition-by has an empty entry: write column, month(c), ...")
    match = _TRANSFORM.match(text)
    if match is None:
        if "(" in text or ")" in text:
            raise errors.BadArgument(f"{text!r} is not a partition transform")
        return PartitionTransform(name="identity", column=text)
    name = match.group(1).lower().removesuffix("s")
    width = match.group(2) or match.group(4)
    if name in UNITS and width is None:
        return PartitionTransform(name=name, column=match.group(3))
    if name in SIZED and width is not None and int(width) > 0:
        return PartitionTransform(name=name, column=match.group(3), width=int(width))
    raise errors.BadArgument(
        f"{text!r} is not a partition transform: use column, year(c), month(c), day(c), hour(c), "
        "bucket(n, c) or truncate(n, c)"
    )


def spark_settings(
    server: ServerEndpoint,
    warehouse: str,
    *,
    gets: resources.SparkResources,
    jars: Path,
    java_options: tuple[str, ...],
    ui: bool = False,
) -> dict[str, str]:
    """Return Spark's settings for one warehouse of the server. Sources: Spark and Iceberg docs.

    gets: master, memory, cores and the user's own settings. ui: whether Spark serves its pages.
    """
    local = gets.master.startswith("local")
    settings = {
        "spark.app.name": "boathouse-pipeline",
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.ui.enabled": "true" if ui else "false",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8" if local else "200",
        # For each call of a frame PySpark would ask the JVM nine times, to name a line in errors.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **gets.settings,
        **catalog_settings(server, warehouse),
        **_s3a_settings(server),
    }
    if java_options:
        settings["spark.driver.extraJavaOptions"] = _option_string(java_options)
    if is_on_this_machine(gets.master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    if not local:
        settings["spark.jars"] = ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    return settings


def library_settings(*, jars: Path, java_options: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of a JVM that has Iceberg's library, and no driver of Spark."""
    return {
        "spark.driver.extraClassPath": f"{jars}/*",
        **({"spark.driver.extraJavaOptions": _option_string(java_options)} if java_options else {}),
    }


def _option_string(options: tuple[str, ...]) -> str:
    """Return options of Java as one text, which Spark divides at spaces outside quotes."""
    escaped = (option.replace("\\", "\\\\").replace('"', '\\"') for option in options)
    return " ".join(f'"{option}"' if " " in option else option for option in escaped)


def is_loopback(url: str) -> bool:
    """Return whether only this machine reaches a URL."""
    return is_loopback_host(urlsplit(url).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Return whether only this machine reaches a host. host: a name or address, also in []."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def has_local_folders(spark_settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether the user names the folders of Spark's temporary files. Source: Spark's
    `Utils.getConfiguredLocalDirs`."""
    return LOCAL_FOLDERS_KEY in spark_settings or any(
        name in environment for name in LOCAL_FOLDERS_VARIABLES
    )


def is_on_this_machine(master: str) -> bool:
    """Return whether all of Spark runs here: no other machine has to reach the driver."""
    if master.startswith("local"):
        return True
    hosts = [address.rpartition(":")[0] for address in master.partition("://")[2].split(",")]
    return all(map(is_loopback_host, hosts))


def scheme_of_raw_files(server: ServerEndpoint) -> str:
    """Return the scheme by which the sessions of a Spark Connect server read raw files.

    Hadoop keeps one file system for all sessions of a process, by scheme and bucket; the first
    session's endpoint and keys would be those of all. So each endpoint and key has its own scheme.
    """
    parts = (server.url, server.region, server.access_key, server.secret_key, server.session_token)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{SCHEME_BEGINNING}{digest[:SCHEME_DIGITS]}"


def connect_settings(server: ServerEndpoint, warehouse: str) -> dict[str, str]:
    """Return the settings of a session on a Spark Connect server; none of them is a start's."""
    hadoop = {
        name.removeprefix("spark.hadoop."): value for name, value in _s3a_settings(server).items()
    }
    implementation = hadoop.pop("fs.s3.impl")
    return {
        "spark.sql.session.timeZone": "UTC",
        **catalog_settings(server, warehouse),
        **hadoop,
        f"fs.{scheme_of_raw_files(server)}.impl": implementation,
    }


def file_settings(server: ServerEndpoint) -> dict[str, str]:
    """Return the properties of Iceberg's S3FileIO for files that no catalog vends keys for."""
    return {
        "s3.endpoint": server.url,
        "s3.path-style-access": "true",
        "client.region": server.region,
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
        **({"s3.session-token": server.session_token} if server.session_token else {}),
    }


def catalog_settings(
    server: ServerEndpoint, warehouse: str, *, name: str | None = None
) -> dict[str, str]:
    """Return Spark's settings for the catalog of one warehouse. name: default: the warehouse's."""
    catalog = f"spark.sql.catalog.{warehouse if name is None else name}"
    return {
        catalog: CATALOG_CLASS,
        f"{catalog}.type": "rest",
        f"{catalog}.uri": server.iceberg,
        f"{catalog}.warehouse": warehouse,
        f"{catalog}.cache-enabled": "false",
        **{f"{catalog}.{name}": value for name, value in catalog_credentials(server).items()},
        f"{catalog}.io-impl": FILE_IO,
        f"{catalog}.header.X-Iceberg-Access-Delegation": "vended-credentials",
    }


def catalog_credentials(server: ServerEndpoint) -> dict[str, str]:
    """Return the properties with which a client of the catalog signs in."""
    if server.bearer:
        # The token ends with the job, and is not to be exchanged for another.
        return {"token": server.bearer, "token-refresh-enabled": "false"}
    return {
        "credential": f"{server.access_key}:{server.secret_key}",
        "oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens",
    }


def _s3a_settings(server: ServerEndpoint) -> Mapping[str, str]:
    prefix = "spark.hadoop.fs.s3a"
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{prefix}.endpoint": server.url,
        f"{prefix}.endpoint.region": server.region,
        f"{prefix}.path.style.access": "true",
        f"{prefix}.access.key": server.access_key,
        f"{prefix}.secret.key": server.secret_key,
        f"{prefix}.connection.ssl.enabled": "true" if server.url.startswith("https") else "false",
        f"{prefix}.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
            if server.session_token
            else "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        **({f"{prefix}.session.token": server.session_token} if server.session_token else {}),
    }
