"""rule: how much of a machine or of a cluster Spark gets, and further settings of the user's own.

An option of the command comes first, then its environment variable. Without both, the machine
decides: a quarter of its memory for the driver, all its cores by hand and half of them for a
server's jobs, which share the machine with the server.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline import errors, masters

MIB = 1 << 20
DRIVER_MIB_MIN, DRIVER_MIB_MAX = 1_024, 8_192
"""The default of the driver's memory is a quarter of the machine's, within these bounds."""
MEMORY_MIB_MIN = 512
"""Spark does not start with less."""
SERVED_CORES_MIN, SERVED_CORES_MAX = 2, 8
"""The default of the tasks of a server's jobs is half of the machine's cores, within these."""
THIS_MACHINE = "local[*]"

VARIABLES: Mapping[str, str] = {
    "driver_memory": "BOATHOUSE_DRIVER_MEMORY",
    "cores": "BOATHOUSE_CORES",
    "executor_memory": "BOATHOUSE_EXECUTOR_MEMORY",
    "executor_cores": "BOATHOUSE_EXECUTOR_CORES",
    "conf": "BOATHOUSE_CONF",
}
"""The environment variable of each option."""

_MEMORY = re.compile(r"(\d{1,9})([mgt])b?", re.IGNORECASE)
_UNITS_MIB = {"m": 1, "g": 1_024, "t": 1_048_576}
_KEY = re.compile(r"spark(?:\.[A-Za-z0-9_-]+)+")
_OPTIONS_OF_KEYS: Mapping[str, str] = {
    "spark.driver.memory": "--driver-memory",
    "spark.executor.memory": "--executor-memory",
    "spark.executor.cores": "--executor-cores",
    "spark.cores.max": "--cores",
    "spark.master": "--master",
    "spark.ui.enabled": "--spark-ui",
}
_OWN_KEYS = frozenset({
    "spark.app.name", "spark.driver.bindAddress", "spark.driver.extraClassPath",
    "spark.driver.extraJavaOptions", "spark.driver.host", "spark.jars",
    "spark.sql.catalogImplementation", "spark.sql.extensions", "spark.sql.session.timeZone",
    "spark.submit.deployMode",
})  # fmt: skip
_OWN_BEGINNINGS = ("spark.sql.catalog.", "spark.hadoop.fs.s3.", "spark.hadoop.fs.s3a.")
"""Settings that decide what a job reads, writes and signs with: a job's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkResources:
    """What Spark gets. master: of local threads or of a cluster. driver_mib: of the driver's heap.

    cores: of a standalone cluster, for all executors together; None for all that are free.
    executor_memory, executor_cores: of each executor; None leaves them to Spark. conf: further
    settings by key.
    """

    master: str
    driver_mib: int = DRIVER_MIB_MIN
    cores: int | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for this."""
        wanted = {
            "spark.cores.max": self.cores,
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
        }
        return {
            "spark.master": self.master,
            "spark.driver.memory": f"{self.driver_mib}m",
            **{key: str(value) for key, value in wanted.items() if value is not None},
            **self.conf,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The memory and the processors that this process may use. memory_bytes: None if unknown."""

    memory_bytes: int | None
    cores: int

    @property
    def driver_mib(self) -> int:
        """The default of the driver's memory."""
        quarter = (self.memory_bytes or 0) // (4 * MIB)
        return min(max(quarter, DRIVER_MIB_MIN), DRIVER_MIB_MAX)

    @property
    def served_cores(self) -> int:
        """The default of the tasks that a server's jobs run at once."""
        return min(max(self.cores // 2, SERVED_CORES_MIN), SERVED_CORES_MAX)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """What a user says of it, as texts; None where nothing is said."""

    master: str = THIS_MACHINE
    driver_memory: str | None = None
    cores: str | None = None
    executor_memory: str | None = None
    executor_cores: str | None = None
    conf: tuple[str, ...] = ()


def resolve(
    wishes: Wishes, environment: Mapping[str, str], machine: Machine, *, is_served: bool = False
) -> SparkResources:
    """Return what Spark gets. is_served: for a server's jobs. Raises BadArgument.

    A variable that does not fit the master is left aside: it is set for all jobs of a machine.
    """

    def of_variable(option: str) -> str | None:
        return environment.get(VARIABLES[option]) or None

    connect = masters.parse_connect(wishes.master)
    if connect is not None:
        return _of_connect(wishes, connect, of_variable("conf") or "")
    is_local = wishes.master.startswith("local")
    for name, value in (
        ("--executor-memory", wishes.executor_memory),
        ("--executor-cores", wishes.executor_cores),
    ):
        if is_local and value is not None:
            raise errors.BadArgument(f"{name} is for a cluster; --master {wishes.master} has none")
    conf = {
        **parse_conf(_words(of_variable("conf") or ""), VARIABLES["conf"]),
        **parse_conf(wishes.conf, "--conf"),
    }
    gets = SparkResources(
        master=wishes.master,
        driver_mib=_driver_mib(wishes.driver_memory, of_variable("driver_memory"), machine),
        conf=conf,
    )
    if is_local:
        master = _local(wishes, of_variable("cores"), machine, is_served=is_served)
        return dataclasses.replace(gets, master=master)
    is_standalone = wishes.master.startswith("spark://")
    if wishes.cores is not None and not is_standalone:
        raise errors.BadArgument(
            f"--cores is for this machine and for spark:// clusters; with --master {wishes.master} "
            "name --executor-cores and --conf spark.executor.instances=N"
        )
    cores, executor_memory = wishes.cores, wishes.executor_memory
    executor_cores = wishes.executor_cores
    if cores is None and is_standalone:
        cores = of_variable("cores")
    if executor_memory is None:
        executor_memory = of_variable("executor_memory")
    if executor_cores is None:
        executor_cores = of_variable("executor_cores")
    if executor_memory is not None:
        executor_memory = f"{parse_memory(executor_memory, '--executor-memory')}m"
    return dataclasses.replace(
        gets,
        cores=None if cores is None else _count(cores, "--cores"),
        executor_memory=executor_memory,
        executor_cores=None
        if executor_cores is None
        else _count(executor_cores, "--executor-cores"),
    )


def _driver_mib(wish: str | None, variable: str | None, machine: Machine) -> int:
    """Return the memory of the driver, which runs on this machine whatever the master is."""
    text, name = wish, "--driver-memory"
    if text is None:
        text, name = variable, VARIABLES["driver_memory"]
    if text is None:
        return machine.driver_mib
    driver_mib = parse_memory(text, name)
    if machine.memory_bytes is not None and driver_mib * MIB > machine.memory_bytes:
        raise errors.BadArgument(
            f"{name} {text} is more than the {machine.memory_bytes // MIB}m that this machine has"
        )
    return driver_mib


def _of_connect(wishes: Wishes, connect: masters.ConnectServer, conf: str) -> SparkResources:
    """Return what a session of a Spark Connect server gets: settings. conf: of the variable."""
    for name, value in (
        ("--driver-memory", wishes.driver_memory),
        ("--cores", wishes.cores),
        ("--executor-memory", wishes.executor_memory),
        ("--executor-cores", wishes.executor_cores),
    ):
        if value is not None:
            raise errors.BadArgument(
                f"{name} is for a Spark that the job starts; what {connect} has was said when it "
                "was started"
            )
    return SparkResources(
        master=wishes.master,
        conf={
            **parse_conf(_words(conf), VARIABLES["conf"]),
            **parse_conf(wishes.conf, "--conf"),
        },
    )


def _local(wishes: Wishes, variable: str | None, machine: Machine, *, is_served: bool) -> str:
    """Return the master of this machine's threads, with the number of its cores."""
    if wishes.cores is not None:
        if wishes.master != THIS_MACHINE:
            raise errors.BadArgument(
                f"--cores {wishes.cores} and --master {wishes.master} both say how many tasks run "
                "at once; leave one of them out"
            )
        return f"local[{_count(wishes.cores, '--cores')}]"
    if wishes.master != THIS_MACHINE:
        return wishes.master
    if variable is not None:
        return f"local[{_count(variable, VARIABLES['cores'])}]"
    return f"local[{machine.served_cores}]" if is_served else THIS_MACHINE


def parse_memory(text: str, name: str) -> int:
    """Parse `2g` or `1536m`; return MiB. name: what the user calls it. Raises BadArgument."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise errors.BadArgument(f"{name} {text!r} is no size of memory like 2g or 1536m")
    size_mib = int(match.group(1)) * _UNITS_MIB[match.group(2).lower()]
    if size_mib < MEMORY_MIB_MIN:
        raise errors.BadArgument(f"{name} {text} is too little: Spark needs {MEMORY_MIB_MIN}m")
    return size_mib


def parse_conf(pairs: Iterable[str], name: str) -> dict[str, str]:
    """Parse settings of Spark, `spark.key=value` each. Raises BadArgument, also for a job's own."""
    conf: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or _KEY.fullmatch(key) is None:
            raise errors.BadArgument(f"{name} {pair!r} is not spark.key=value")
        if key in _OPTIONS_OF_KEYS:
            raise errors.BadArgument(f"{name} {key}: use {_OPTIONS_OF_KEYS[key]}")
        if key in _OWN_KEYS or key.startswith(_OWN_BEGINNINGS):
            raise errors.BadArgument(f"{name} {key}: a job sets this itself")
        if key in conf:
            raise errors.BadArgument(f"{name} names {key} twice")
        conf[key] = value
    return conf


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise errors.BadArgument(f"{VARIABLES['conf']} cannot be read: {error}") from error


def _count(text: str, name: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise errors.BadArgument(f"{name} {text!r} is no number of cores")
    return int(text)
