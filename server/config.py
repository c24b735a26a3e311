"""rule: flags, environment and mini.toml become one frozen Config.

A flag overrides an environment variable, which overrides the file, which overrides the default.
Every key has one row in SETTINGS; the command line, the names of environment variables and
docs/CONFIG.md follow from it. An unknown key is refused, so that a typo is noticed. Opens no file
and reads no environment itself.
"""

from __future__ import annotations

import base64
import dataclasses
import difflib
import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from server import metastores, mounts, warehouses
from storage import errors as storage_errors
from storage import names

_ACCOUNT = re.compile(r"[0-9]{12}")
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?")
_USER_NAME = re.compile(r"[A-Za-z0-9+=,.@_-]{1,64}")
_SPARK_SETTING = re.compile(r"spark(\.[A-Za-z0-9_-]+)+=.*", re.DOTALL)
_JOBS_KEYS = frozenset({
    "spark.app.name", "spark.cores.max", "spark.driver.bindAddress", "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions", "spark.driver.host", "spark.driver.memory",
    "spark.executor.cores", "spark.executor.memory", "spark.jars", "spark.master",
    "spark.sql.catalogImplementation", "spark.sql.extensions", "spark.sql.session.timeZone",
    "spark.submit.deployMode", "spark.ui.enabled",
})  # fmt: skip
_JOBS_BEGINNINGS = ("spark.sql.catalog.", "spark.hadoop.fs.s3.", "spark.hadoop.fs.s3a.")
"""Settings of Spark that jobs refuse, as `pipeline.resources` has them."""
_CANONICAL_ID = re.compile(r"[0-9a-f]{64}")

VERSION = "0.1.0"
ENVIRONMENT_PREFIX = "BOATHOUSE_"

SettingType = Literal["text", "count", "flag", "names"]


class InvalidConfig(Exception):
    """A setting is unknown, malformed, or conflicts with another; str() says which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One key: its name in Config and mini.toml, its flag, its default and its meaning."""

    name: str
    type: SettingType
    default: Any
    meaning: str
    repeated_flag: str | None = None

    @property
    def flag(self) -> str:
        """The setting's flag on the command line."""
        return self.repeated_flag or "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The setting's environment variable."""
        return ENVIRONMENT_PREFIX + self.flag.removeprefix("--").replace("-", "_").upper()


JOBS_MEMORY_MIB_MIN = 512
"""Spark does not start with less."""
NAMESPACE_SEPARATORS = (".", "~", ":", "$")
AUDITED = ("changes", "all")
SQL_IDLE_SECONDS_MIN = 60
LOG_LEVELS = ("debug", "info", "warning", "error")

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="data",
        type="text",
        default="./boathouse-data",
        meaning="Data folder; created at first start.",
    ),
    Setting(name="host", type="text", default="127.0.0.1", meaning="Address to listen on."),
    Setting(
        name="port",
        type="count",
        default=5253,
        meaning="Port to listen on; 0 takes a free one.",
    ),
    Setting(
        name="table_buckets",
        type="names",
        default=("lake",),
        repeated_flag="--table-bucket",
        meaning="Table buckets that exist from the start; the first is the default warehouse.",
    ),
    Setting(
        name="buckets",
        type="names",
        default=(),
        repeated_flag="--bucket",
        meaning="General buckets that exist from the start.",
    ),
    Setting(
        name="sample_data",
        type="flag",
        default=False,
        meaning="Load a small real data set and print a query to try.",
    ),
    Setting(
        name="no_auth",
        type="flag",
        default=False,
        meaning="Give every client root's rights; loopback addresses only.",
    ),
    Setting(
        name="ready_file",
        type="text",
        default=None,
        meaning="File that receives one JSON object once every face answers.",
    ),
    Setting(
        name="json",
        type="flag",
        default=False,
        meaning="Print the banner as one JSON object.",
    ),
    Setting(
        name="domain",
        type="text",
        default=None,
        meaning="Serve virtual-hosted buckets as BUCKET.<domain>, besides BUCKET.localhost.",
    ),
    Setting(
        name="region",
        type="text",
        default="us-east-1",
        meaning="Region that ARNs and answers name.",
    ),
    Setting(
        name="account",
        type="text",
        default="000000000000",
        meaning="Account id, 12 digits.",
    ),
    Setting(
        name="access_key",
        type="text",
        default=None,
        meaning="Root access key, instead of the one in DIR/root.json.",
    ),
    Setting(
        name="secret_key",
        type="text",
        default=None,
        meaning="Root secret key; goes with access_key.",
    ),
    Setting(
        name="idle_timeout_seconds",
        type="count",
        default=60,
        meaning=(
            "How long a client may stop in the middle of sending a body or of taking an answer."
        ),
    ),
    Setting(
        name="log_level",
        type="text",
        default="warning",
        meaning="Level of the log on standard error: debug, info, warning or error.",
    ),
    Setting(
        name="access_log",
        type="flag",
        default=False,
        meaning=(
            "Write one line for each request to the log: client, method, path, status and bytes. "
            "Queries are left out, because they may hold signatures."
        ),
    ),
    Setting(
        name="sql_workers",
        type="count",
        default=2,
        meaning=(
            "SQL worker processes: the first is started at a login, others when a query needs "
            "one; one user has at most all but one of them. 0 runs SQL in the server's process."
        ),
    ),
    Setting(
        name="sql_memory_mib",
        type="count",
        default=2048,
        meaning=(
            "Memory pool of one SQL worker, MiB; sorts and aggregates spill beyond it. The process "
            "ends when it grows by more than one and a half times as much and 512 MiB."
        ),
    ),
    Setting(
        name="sql_timeout_seconds",
        type="count",
        default=1200,
        meaning="Longest time one SQL statement may run.",
    ),
    Setting(
        name="sql_idle_seconds",
        type="count",
        default=14_400,
        meaning=(
            "How long an SQL session may send nothing and keep its tokens; a client with the "
            "master token then renews them."
        ),
    ),
    Setting(
        name="sql_results_mib",
        type="count",
        default=8192,
        meaning=(
            "Room for SQL results that clients fetch in chunks, MiB in `DIR/cache/results`; the "
            "oldest are removed, and a larger one is refused. A result is removed 5 minutes after "
            "it was read or its session closed, and always after a day."
        ),
    ),
    Setting(
        name="mount_cache_mib",
        type="count",
        default=10240,
        meaning=(
            "Room for copies of files of `[[mounts]]` that queries read, MiB; those unused for "
            "longest are removed, and a query that needs more at once is refused."
        ),
    ),
    Setting(
        name="metastore_config",
        type="text",
        default=None,
        meaning=(
            "YAML file in the form of Embucket's METASTORE_CONFIG, a variable that is read too: "
            "its databases become mounts, or table buckets."
        ),
    ),
    Setting(
        name="audit",
        type="text",
        default="changes",
        meaning=(
            "What the audit log in `DIR/audit` has beside denials: `changes`, or `all`, reads too, "
            "which have files of their own (`reads-*.jsonl`)."
        ),
    ),
    Setting(
        name="sigv2_header",
        type="flag",
        default=False,
        meaning=(
            "Take Authorization headers of Signature Version 2 on the S3 face, for clients that "
            "have no other; presigned URLs of that version are always taken."
        ),
    ),
    Setting(
        name="hide_table_buckets",
        type="flag",
        default=False,
        meaning=(
            "Leave table buckets out of ListBuckets of the S3 face, for clients that walk every "
            "bucket that they see."
        ),
    ),
    Setting(
        name="namespace_separator",
        type="text",
        default=None,
        meaning=(
            "Character between the levels of a namespace in URLs of the Iceberg REST catalog, for "
            "proxies that refuse 0x1F, which the specification has: one of `. ~ : $`."
        ),
    ),
    Setting(
        name="encrypted_disk",
        type="flag",
        default=False,
        meaning=(
            "The data folder lies on an encrypted disk. Clients of S3 and s3tables that ask for "
            "encryption by AES256 (SSE-S3) then have it; Boathouse itself stores bodies as they "
            "are sent."
        ),
    ),
    Setting(
        name="sweep_interval_seconds",
        type="count",
        default=3600,
        meaning=(
            "How often unreferenced files of tables are looked for and freed; 0: only on request."
        ),
    ),
    Setting(
        name="pipelines",
        type="text",
        default="pipelines",
        meaning=(
            "Folder of the pipelines, `NAME.toml`, that the server runs when they are due; empty: "
            "none. No file is run that every user of the machine may write."
        ),
    ),
    Setting(
        name="maintenance_interval_seconds",
        type="count",
        default=3600,
        meaning=(
            "How often tables are looked at for snapshots to expire and small files to compact; 0: "
            "only on request. Compaction needs Spark, which the server does not install."
        ),
    ),
    Setting(
        name="jobs_memory_mib",
        type="count",
        default=None,
        meaning=(
            "Heap of the one Spark process that runs pipelines and compaction, MiB; none: a "
            "quarter of the machine's memory, 1024 to 8192."
        ),
    ),
    Setting(
        name="jobs_cores",
        type="count",
        default=None,
        meaning=(
            "Tasks that this process runs at once; none: half of the machine's cores, 2 to 8."
        ),
    ),
    Setting(
        name="jobs_conf",
        type="names",
        default=(),
        repeated_flag="--jobs-conf",
        meaning=(
            "Further settings of this Spark, `spark.key=value` each; not those that a job sets "
            "itself."
        ),
    ),
    Setting(
        name="lifecycle_day_seconds",
        type="count",
        default=86400,
        meaning=(
            "How long a day of lifecycle rules and of the sweep of tables is; less than 86400 is "
            "for tests, and loses objects and files early."
        ),
    ),
    Setting(
        name="tls_cert",
        type="text",
        default=None,
        meaning="PEM certificate chain; serves https together with tls_key. Jobs, samples, "
        "`mini.py sql` and pipelines run by hand trust it beside what they trust already.",
    ),
    Setting(
        name="tls_key",
        type="text",
        default=None,
        meaning="PEM private key of tls_cert.",
    ),
)

NOT_FLAGS = frozenset({"access_key", "secret_key"})
"""Settings without a flag: every user of the machine can read secrets on a command line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketSetting:
    """One key of `[table_buckets.NAME]`. choices: the allowed words.

    Without choices it is a whole number of least to DAYS_MAX if its default is one, and otherwise
    true or false.
    """

    name: str
    choices: tuple[str, ...]
    default: str | bool | int
    meaning: str
    least: int = 1

    @property
    def is_number(self) -> bool:
        """Whether the value is a whole number."""
        return isinstance(self.default, int) and not isinstance(self.default, bool)

    @property
    def expected(self) -> str:
        """The allowed values, as text."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return (
            f"a whole number from {self.least} to {DAYS_MAX}" if self.is_number else "true or false"
        )


DAYS_MAX = 36_500
"""A hundred years; the bound of every number."""

BUCKET_SETTINGS: tuple[BucketSetting, ...] = (
    BucketSetting(
        name="layout",
        choices=("off", "names", "strict"),
        default="names",
        meaning=(
            "How a write below a table's place is checked: not at all, by its key, or by its key "
            "and its content."
        ),
    ),
    BucketSetting(
        name="require_registered",
        choices=(),
        default=False,
        meaning="Accept files only below places of tables and views of the catalog.",
    ),
    BucketSetting(
        name="aws_strict",
        choices=(),
        default=False,
        meaning=(
            "Offer on objects only what AWS does on tables' storage: no listing, deleting, copying "
            "or tagging."
        ),
    ),
    BucketSetting(
        name="requested_location",
        choices=("refuse", "override"),
        default="refuse",
        meaning=(
            "What becomes of a request for a location outside the table bucket: it is refused, or "
            "the server chooses the location itself."
        ),
    ),
    BucketSetting(
        name="unreferenced_days",
        choices=(),
        default=3,
        meaning=("How old an unreferenced file of a table must be before the sweep hides it."),
    ),
    BucketSetting(
        name="noncurrent_days",
        choices=(),
        default=10,
        meaning="How long a hidden file is kept before the sweep frees it.",
    ),
    BucketSetting(
        name="history_days",
        choices=(),
        default=7,
        meaning=(
            "For how long the sweep keeps what every earlier state of a table references; at least "
            "`unreferenced_days`."
        ),
    ),
    BucketSetting(
        name="dropped_table_days",
        choices=(),
        default=30,
        meaning=(
            "For how long a table dropped without purge can be restored; a drop fixes the time."
        ),
    ),
    BucketSetting(
        name="purge_on_drop",
        choices=("asked", "always", "never"),
        default="asked",
        meaning=(
            "Whether a dropTable of the REST catalog purges: if it asks for it, also if it does "
            "not, or never, by no API."
        ),
    ),
    BucketSetting(
        name="manifests_max",
        choices=(),
        default=100,
        least=0,
        meaning=(
            "How many small manifests a table may have before the server rewrites them; 0: any "
            "number."
        ),
    ),
    BucketSetting(
        name="statistics_snapshots",
        choices=(),
        default=0,
        least=0,
        meaning=(
            "After how many snapshots that changed rows the server computes a table's statistics "
            "again; 0: never."
        ),
    ),
    BucketSetting(
        name="protected",
        choices=(),
        default=False,
        meaning="Refuse to delete the table bucket.",
    ),
)
"""Settings of a new table bucket. Its index row stores the values that differ from defaults."""

FURTHER_KEYS = ("users", "identity_provider_keys", "mounts", "warehouses")
USER_KEYS = (
    "name", "access_key", "secret_key", "policies", "account", "canonical_id", "display_name",
     "email", "public_keys",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """One `[[users]]` entry. policies: AWS policy documents, decoded, and names of the server's
    managed policies; none means no rights."""

    name: str
    access_key: str
    secret_key: str
    policies: tuple[Mapping[str, Any] | str, ...] = ()
    account: str | None = None
    canonical_id: str | None = None
    display_name: str | None = None
    email: str | None = None
    public_keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """All settings, resolved. docs/CONFIG.md explains each."""

    data: str
    host: str
    port: int
    table_buckets: tuple[str, ...]
    buckets: tuple[str, ...]
    sample_data: bool
    no_auth: bool
    ready_file: str | None
    json: bool
    domain: str | None
    region: str
    account: str
    access_key: str | None
    secret_key: str | None
    idle_timeout_seconds: int
    log_level: str
    access_log: bool
    sql_workers: int
    sql_memory_mib: int
    sql_timeout_seconds: int
    sql_idle_seconds: int
    sql_results_mib: int
    mount_cache_mib: int
    metastore_config: str | None
    audit: str
    sigv2_header: bool
    hide_table_buckets: bool
    namespace_separator: str | None
    encrypted_disk: bool
    sweep_interval_seconds: int
    pipelines: str
    maintenance_interval_seconds: int
    jobs_memory_mib: int | None
    jobs_cores: int | None
    jobs_conf: tuple[str, ...]
    lifecycle_day_seconds: int
    tls_cert: str | None
    tls_key: str | None
    users: tuple[User, ...] = field(default=())
    identity_provider_keys: Mapping[str, str] = field(default_factory=dict)
    """URL of an OpenID Connect provider -> the file with its key set, which is then not fetched."""
    bucket_seeds: Mapping[str, Mapping[str, str | bool | int]] = field(default_factory=dict)
    """Table bucket -> its `[table_buckets.NAME]`: used when the bucket is created, ignored if it
    exists."""
    mounts: tuple[mounts.Mount, ...] = field(default=())
    """Other catalogs and tables, each shown as a read-only database."""
    warehouses: tuple[warehouses.Warehouse, ...] = field(default=())
    """SQL warehouses whose queries run on Spark."""
    schemas: tuple[tuple[str, str], ...] = field(default=())
    """(table bucket, schema): created at the start where they are absent."""

    @property
    def scheme(self) -> str:
        """http, or https if a certificate is configured."""
        return "https" if self.tls_cert else "http"


def resolve(
    flags: Mapping[str, Any], environment: Mapping[str, str], document: Mapping[str, Any]
) -> Config:
    """Return the Config of flags, environment and the decoded mini.toml.

    flags: setting name -> value, None if the flag is absent. Raises InvalidConfig.
    """
    _check_keys("mini.toml", document, (*(each.name for each in SETTINGS), *FURTHER_KEYS))
    seeds = _seeds(document.get("table_buckets"))
    if seeds:
        document = {**document, "table_buckets": list(seeds)}
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        if flags.get(setting.name) is not None:
            values[setting.name] = _typed(setting, flags[setting.name], setting.flag)
        elif setting.variable in environment:
            values[setting.name] = _from_text(
                setting, environment[setting.variable], setting.variable
            )
        elif setting.name in document:
            values[setting.name] = _typed(
                setting, document[setting.name], f"mini.toml {setting.name}"
            )
        else:
            values[setting.name] = setting.default
    entries = document.get("users", [])
    if not isinstance(entries, list):
        raise InvalidConfig("mini.toml users: not a list of [[users]] tables")
    users = tuple(_user(entry, index) for index, entry in enumerate(entries))
    try:
        mounted = mounts.parse(document.get("mounts", []))
        declared = warehouses.parse(document.get("warehouses", []))
    except (mounts.InvalidMount, warehouses.InvalidWarehouse) as error:
        raise InvalidConfig(str(error)) from None
    config = Config(
        **values,
        mounts=mounted,
        warehouses=declared,
        users=users,
        identity_provider_keys=_key_files(document.get("identity_provider_keys", {})),
        bucket_seeds=seeds,
    )
    _check(config)
    return config


def with_metastore(config: Config, document: Any) -> Config:
    """Return a Config with what its `metastore_config` describes. document: the decoded file.

    Raises InvalidConfig.
    """
    try:
        described = metastores.parse(document, str(config.metastore_config))
    except mounts.InvalidMount as error:
        raise InvalidConfig(str(error)) from None
    taken = {mount.name for mount in config.mounts}
    for mount in described.mounts:
        if mount.name in taken:
            raise InvalidConfig(f"{config.metastore_config}: there are two mounts {mount.name}")
        taken.add(mount.name)
    buckets = dict.fromkeys((*config.table_buckets, *described.table_buckets))
    for name in described.table_buckets:
        try:
            names.check_bucket_name(name, "table")
        except storage_errors.InvalidBucketName as error:
            raise InvalidConfig(f"{config.metastore_config}: {error}") from None
    whole = dataclasses.replace(
        config,
        mounts=(*config.mounts, *described.mounts),
        table_buckets=tuple(buckets),
        schemas=described.schemas,
    )
    _check(whole)
    return whole


def bucket_settings_of(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting of a table bucket, from its index row and the defaults.

    Settings that another release wrote are returned unchanged.
    """
    return {setting.name: stored.get(setting.name, setting.default) for setting in BUCKET_SETTINGS}


def shown_default(setting: Setting | BucketSetting) -> str:
    """Return a setting's default as it is written in mini.toml."""
    match setting.default:
        case None:
            return "none"
        case bool(value):
            return "true" if value else "false"
        case tuple(names):
            return ", ".join(names) or "none"
        case value:
            return str(value)


def is_loopback(host: str) -> bool:
    """Return whether host is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(config: Config) -> None:
    if config.no_auth and not is_loopback(config.host):
        raise InvalidConfig(
            f"--no-auth is refused on {config.host}: it would give root's rights to every client "
            "that reaches this machine. Use --host 127.0.0.1, or leave --no-auth out."
        )
    if not 0 <= config.port <= 65535:
        raise InvalidConfig(f"--port {config.port} is not a port (0 to 65535)")
    if config.idle_timeout_seconds < 1:
        raise InvalidConfig("--idle-timeout-seconds must be at least 1")
    if config.sql_idle_seconds < SQL_IDLE_SECONDS_MIN:
        raise InvalidConfig(f"--sql-idle-seconds must be at least {SQL_IDLE_SECONDS_MIN}")
    if config.namespace_separator not in (None, *NAMESPACE_SEPARATORS):
        raise InvalidConfig(
            f"--namespace-separator {config.namespace_separator!r} is none of "
            f"{' '.join(NAMESPACE_SEPARATORS)}"
        )
    if config.audit not in AUDITED:
        raise InvalidConfig(f"--audit {config.audit!r} is none of {', '.join(AUDITED)}")
    if config.log_level not in LOG_LEVELS:
        raise InvalidConfig(f"--log-level {config.log_level!r} is none of {', '.join(LOG_LEVELS)}")
    if config.jobs_memory_mib is not None and config.jobs_memory_mib < JOBS_MEMORY_MIB_MIN:
        raise InvalidConfig(f"--jobs-memory-mib must be at least {JOBS_MEMORY_MIB_MIN}")
    if config.jobs_cores is not None and config.jobs_cores < 1:
        raise InvalidConfig("--jobs-cores must be at least 1")
    _check_jobs_conf(config.jobs_conf)
    if config.lifecycle_day_seconds < 1:
        raise InvalidConfig("--lifecycle-day-seconds must be at least 1")
    if not config.table_buckets:
        raise InvalidConfig("at least one --table-bucket is needed: it is the default warehouse")
    if not _ACCOUNT.fullmatch(config.account):
        raise InvalidConfig(f"account {config.account!r} is not 12 digits")
    if not _REGION.fullmatch(config.region):
        raise InvalidConfig(
            f"region {config.region!r} is not a region's name: lower-case letters, digits and "
            "hyphens, like us-east-1"
        )
    if config.domain is not None and not _DOMAIN.fullmatch(config.domain):
        raise InvalidConfig(
            f"domain {config.domain!r} is not a domain's name in lower case, like s3.example.org: "
            "no port, no address"
        )
    if (config.access_key is None) != (config.secret_key is None):
        raise InvalidConfig("access_key and secret_key go together; one of them is missing")
    if (config.tls_cert is None) != (config.tls_key is None):
        raise InvalidConfig("--tls-cert and --tls-key go together; one of them is missing")
    for mount in config.mounts:
        if mount.name in (*config.table_buckets, *config.buckets):
            raise InvalidConfig(f"mini.toml mount {mount.name}: a bucket has the same name")
    if config.mount_cache_mib < 1:
        raise InvalidConfig("--mount-cache-mib must be at least 1")
    people = [user.name for user in config.users]
    if len(set(people)) != len(people):
        raise InvalidConfig("mini.toml: two [[users]] have the same name")


def _check_jobs_conf(pairs: Iterable[str]) -> None:
    keys: set[str] = set()
    for pair in pairs:
        if _SPARK_SETTING.fullmatch(pair) is None:
            raise InvalidConfig(f"--jobs-conf {pair!r} is not spark.key=value")
        key = pair.partition("=")[0]
        if key == "spark.driver.memory":
            raise InvalidConfig(f"--jobs-conf {key}: use --jobs-memory-mib")
        if key in _JOBS_KEYS or key.startswith(_JOBS_BEGINNINGS):
            raise InvalidConfig(f"--jobs-conf {key}: a job sets this itself")
        if key in keys:
            raise InvalidConfig(f"--jobs-conf names {key} twice")
        keys.add(key)


def _typed(setting: Setting, value: Any, where: str) -> Any:
    match setting.type:
        case "text" if isinstance(value, str):
            return value
        case "count" if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        case "flag" if isinstance(value, bool):
            return value
        case "names" if isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
            return tuple(value)
        case _:
            return (
                _from_text(setting, value, where)
                if isinstance(value, str)
                else _refuse(setting, value, where)
            )


def _from_text(setting: Setting, text: str, where: str) -> Any:
    match setting.type:
        case "text":
            return text
        case "names":
            return tuple(part.strip() for part in text.split(",") if part.strip())
        case "count" if text.isdecimal():
            return int(text)
        case "flag" if text.lower() in {"1", "true", "yes", "on"}:
            return True
        case "flag" if text.lower() in {"0", "false", "no", "off", ""}:
            return False
        case _:
            return _refuse(setting, text, where)


def _refuse(setting: Setting, value: object, where: str) -> Any:
    expected = {
        "text": "text",
        "count": "a whole number that is not negative",
        "flag": "true or false",
        "names": "a list of names",
    }[setting.type]
    raise InvalidConfig(f"{where}: {value!r} is not {expected}")


def _check_keys(where: str, keys: Iterable[str], known_keys: Sequence[str]) -> None:
    for key in keys:
        if key not in known_keys:
            near = difflib.get_close_matches(key[:100], known_keys, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise InvalidConfig(
                f"{where}: unknown key {key!r}{meant}; the keys are {', '.join(known_keys)}"
            )


def _seeds(tables: Any) -> dict[str, dict[str, str | bool | int]]:
    """Return the settings of `[table_buckets.NAME]` by name; none if the key is a list of names."""
    if not isinstance(tables, Mapping):
        return {}
    seeds: dict[str, dict[str, str | bool | int]] = {}
    for name, entry in tables.items():
        where = f"mini.toml [table_buckets.{name}]"
        try:
            names.check_bucket_name(name, "table")
        except storage_errors.InvalidBucketName as error:
            raise InvalidConfig(f"{where}: {error}") from None
        if not isinstance(entry, Mapping):
            raise InvalidConfig(f"{where}: not a table")
        _check_keys(where, entry, [setting.name for setting in BUCKET_SETTINGS])
        seeds[name] = {
            setting.name: _seed(setting, entry[setting.name], where)
            for setting in BUCKET_SETTINGS
            if setting.name in entry
        }
    return seeds


def _key_files(entry: Any) -> dict[str, str]:
    """Return the files of `[identity_provider_keys]` by the providers' URLs."""
    where = "mini.toml [identity_provider_keys]"
    if not isinstance(entry, Mapping):
        raise InvalidConfig(f"{where}: not a table")
    for url, file in entry.items():
        if not url.startswith(("https://", "http://")):
            raise InvalidConfig(f"{where}: {url!r} is not the URL of a provider")
        if not isinstance(file, str) or not file:
            raise InvalidConfig(f"{where} {url}: {file!r} is not the name of a file")
    return dict(entry)


def _seed(setting: BucketSetting, value: Any, where: str) -> str | bool | int:
    if setting.choices and value in setting.choices:
        return str(value)
    if not setting.choices and isinstance(value, bool) and not setting.is_number:
        return value
    if setting.is_number and type(value) is int and setting.least <= value <= DAYS_MAX:
        return value
    raise InvalidConfig(f"{where} {setting.name}: {value!r} is not {setting.expected}")


def check_bucket_setting(name: str, value: Any) -> None:
    """Raise InvalidConfig unless a setting of a table bucket may have a value."""
    (setting,) = (each for each in BUCKET_SETTINGS if each.name == name)
    _seed(setting, value, "the table bucket's setting")


def _user(entry: Any, index: int) -> User:
    where = f"mini.toml [[users]] number {index + 1}"
    if not isinstance(entry, Mapping):
        raise InvalidConfig(f"{where}: not a table")
    _check_keys(where, entry, USER_KEYS)
    for key in ("policies", "public_keys"):
        if not isinstance(entry.get(key, []), list):
            raise InvalidConfig(f"{where}: {key} is not a list")
    for key in ("account", "canonical_id", "display_name", "email"):
        if not isinstance(entry.get(key, ""), str):
            raise InvalidConfig(f"{where}: {key} is not text")
    for key in entry.get("public_keys", []):
        if not isinstance(key, str) or not _is_pem(key):
            raise InvalidConfig(f"{where}: a public key is not PEM text")
    for key in ("name", "access_key", "secret_key"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise InvalidConfig(f"{where}: {key} is missing")
    for key, form, words in (
        ("name", _USER_NAME, "a user's name: 1 to 64 letters, digits and +=,.@_-"),
        ("account", _ACCOUNT, "12 digits"),
        ("canonical_id", _CANONICAL_ID, "64 hexadecimal digits in lower case"),
    ):
        if key in entry and not form.fullmatch(entry[key]):
            raise InvalidConfig(f"{where} {key}: {entry[key]!r} is not {words}")
    return User(
        name=entry["name"],
        access_key=entry["access_key"],
        secret_key=entry["secret_key"],
        policies=tuple(_policy(policy, where) for policy in entry.get("policies", [])),
        account=entry.get("account"),
        canonical_id=entry.get("canonical_id"),
        display_name=entry.get("display_name"),
        email=entry.get("email"),
        public_keys=tuple(entry.get("public_keys", [])),
    )


def _is_pem(text: str) -> bool:
    """Return whether text can be a PEM public key, with or without its first and last line."""
    body = "".join(line for line in text.split("\n") if not line.startswith("-----"))
    try:
        return len(base64.b64decode("".join(body.split()), validate=True)) > 0
    except ValueError:
        return False


def _policy(policy: Any, where: str) -> Mapping[str, Any] | str:
    # A policy is a TOML table, the JSON text that AWS documents show, or a managed policy's name.
    if isinstance(policy, str):
        if policy.isalnum() and not policy.isdigit():
            return policy
        try:
            policy = json.loads(policy)
        except ValueError as error:
            raise InvalidConfig(f"{where}: a policy is not valid JSON: {error}") from error
    if not isinstance(policy, Mapping):
        raise InvalidConfig(f"{where}: a policy is neither a table nor JSON text")
    return policy
