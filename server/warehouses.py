"""rule: the `[[warehouses]]` of mini.toml: SQL warehouses whose queries run on Spark.

Every other warehouse runs its queries on the server's own engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from server import entries as entry_lists

WAREHOUSES_MAX: Final = 16
ENGINES: Final = ("spark",)
MEMORY_MIB_MIN: Final = 512
"""Less is not enough for Spark's driver to start and run a query."""
IDLE_SECONDS_MAX: Final = 86_400
MEMORY_MIB: Final = 1024
MASTER: Final = "local[2]"
EXECUTOR_CORES_MAX: Final = 1024
CLUSTER_CORES_MAX: Final = 100_000
CLUSTER_KEYS: Final = ("cores", "executor_memory_mib", "executor_cores")
"""What only a cluster has."""
KEYS: Final = ("name", "engine", "master", "memory_mib", "idle_seconds", *CLUSTER_KEYS)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,254}")
CONNECT: Final = "sc://"
_MASTER: Final = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,3})\])?|spark://[A-Za-z0-9_.:,\[\]-]+"
    r"|sc://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/(;use_ssl=true)?)?"
)
"""No other parameters of a Connect server's address: the one for a token would stand in the
arguments of a process, which other users of the machine see."""


class InvalidWarehouse(Exception):
    """A warehouse's entry is malformed; str() says how."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Warehouse:
    """One warehouse. name: in upper case, as SQL has an unquoted name.

    master: Spark's. memory_mib: of the heap of Spark's driver; None for MEMORY_MIB. idle_seconds:
    how long its process stays without queries. cores: of a cluster, for all executors together.
    executor_memory_mib, executor_cores: of each executor. None leaves them to Spark.
    """

    name: str
    engine: str
    master: str = MASTER
    memory_mib: int | None = None
    idle_seconds: int = 600
    cores: int | None = None
    executor_memory_mib: int | None = None
    executor_cores: int | None = None

    @property
    def heap_mib(self) -> int:
        """The heap of Spark's driver."""
        return MEMORY_MIB if self.memory_mib is None else self.memory_mib


def parse(entries: Any) -> tuple[Warehouse, ...]:
    """Return the warehouses of the decoded `[[warehouses]]`. Raises InvalidWarehouse."""
    return entry_lists.parse(
        "warehouses",
        entries,
        _warehouse,
        keys=KEYS,
        entries_max=WAREHOUSES_MAX,
        error=InvalidWarehouse,
    )


def _warehouse(entry: Mapping[str, Any], where: str) -> Warehouse:
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidWarehouse(
            f"{where}: name is missing, or no plain name of letters, digits, _ and $"
        )
    where = f"mini.toml warehouse {name}"
    if entry.get("engine") not in ENGINES:
        raise InvalidWarehouse(f"{where}: engine is none of {', '.join(ENGINES)}")
    master = entry.get("master", MASTER)
    if not isinstance(master, str) or not _MASTER.fullmatch(master):
        raise InvalidWarehouse(
            f"{where}: master is neither local[N] nor a Spark cluster, like spark://host:7077, nor "
            "a Spark Connect server, like sc://host:15002"
        )
    if master.startswith(CONNECT):
        for key in ("memory_mib", *CLUSTER_KEYS):
            if key in entry:
                raise InvalidWarehouse(
                    f"{where}: {key} is for a Spark that the server starts; {master} has its own"
                )
    for key in CLUSTER_KEYS:
        if key in entry and master.startswith("local"):
            raise InvalidWarehouse(f"{where}: {key} is for a cluster; the master {master} is none")
    for key, least, most in (
        ("memory_mib", MEMORY_MIB_MIN, 1 << 24),
        ("idle_seconds", 1, IDLE_SECONDS_MAX),
        ("cores", 1, CLUSTER_CORES_MAX),
        ("executor_memory_mib", MEMORY_MIB_MIN, 1 << 24),
        ("executor_cores", 1, EXECUTOR_CORES_MAX),
    ):
        value = entry.get(key, least)
        if type(value) is not int or not least <= value <= most:
            raise InvalidWarehouse(f"{where}: {key} is not a whole number from {least} to {most}")
    return Warehouse(**{**entry, "name": name.upper()})
