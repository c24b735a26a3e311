"""One step of `make bench-pipeline` by Spark alone, in a process and a JVM of its own.

The catalog is Iceberg's Hadoop catalog in a local folder, the sources are local files. Spark's
release, jars, class archive, memory, cores and settings are those of `python -m pipeline`. The JVM
has Java's own defaults.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from pipeline import archive, gateway, jars, java, resources, session, settings, workfolders

CATALOG: Final = "plain"
NO_SERVER: Final = settings.ServerEndpoint(
    url="http://127.0.0.1:9", access_key="none", secret_key="none", region="us-east-1"
)
"""The settings name a server, which no step asks anything."""
CSV_OPTIONS: Final = {
    "header": "true", "inferSchema": "true", "quote": '"', "escape": '"', "mode": "FAILFAST",
}  # fmt: skip
"""How the pipeline reads CSV (RFC 4180)."""
MERGE: Final = (
    "MERGE INTO {} AS t USING changes AS c ON t.id = c.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)

Work: TypeAlias = Mapping[str, str]
"""What a step gets: `table`, and where it reads files, `source`."""


def main() -> int:
    """Do the step that the arguments name, print its outcome as JSON.

    Arguments: the step, the catalog's folder, the master, the driver's memory in MiB, and a JSON
    object, the step's Work.
    """
    step, folder, master, driver_mib, work = sys.argv[1:]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    runtime = java.find(environment)
    folder_of_jars = jars.ensure(runtime, environment, say=print, may_fetch=False)
    gets = resources.SparkResources(master=master, driver_mib=int(driver_mib))
    wanted = {
        **settings.spark_settings(
            NO_SERVER, "lake", gets=gets, jars=folder_of_jars, java_options=()
        ),
        f"spark.sql.catalog.{CATALOG}": settings.CATALOG_CLASS,
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": folder,
    }
    with (
        workfolders.opened() as private,
        gateway.running(
            runtime,
            wanted,
            folder=private,
            environment=environment,
            jvm_options=archive.options(runtime, folder_of_jars),
        ),
        session.opened(master) as spark,
    ):
        outcome = STEPS[step](spark.session, json.loads(work))
    print(json.dumps(outcome, default=str))
    return 0


def _csv(spark: Any, work: Work) -> Mapping[str, Any]:
    frame = spark.read.options(**CSV_OPTIONS).csv(work["source"])
    frame.writeTo(work["table"]).using("iceberg").create()
    return {}


def _parquet(spark: Any, work: Work) -> Mapping[str, Any]:
    spark.read.parquet(work["source"]).writeTo(work["table"]).using("iceberg").create()
    return {}


def _merge(spark: Any, work: Work) -> Mapping[str, Any]:
    spark.read.parquet(work["source"]).createOrReplaceTempView("changes")
    spark.sql(MERGE.format(work["table"]))
    return {}


def _add(spark: Any, work: Work) -> Mapping[str, Any]:
    """Create a table whose data files are those of a folder, as they are."""
    first = sorted(Path(work["source"]).iterdir())[0]
    rows = spark.read.parquet(str(first)).limit(0)
    rows.writeTo(work["table"]).using("iceberg").create()
    return _called(spark, "add_files", work, f"source_table => '`parquet`.`{work['source']}`'")


def _compact(spark: Any, work: Work) -> Mapping[str, Any]:
    return _called(spark, "rewrite_data_files", work)


def _expire(spark: Any, work: Work) -> Mapping[str, Any]:
    older = f"older_than => TIMESTAMP '{work['older_than']}'"
    return _called(spark, "expire_snapshots", work, older, "retain_last => 1")


def _called(spark: Any, procedure: str, work: Work, *arguments: str) -> Mapping[str, Any]:
    text = ", ".join((f"table => '{work['table']}'", *arguments))
    (row,) = spark.sql(f"CALL {CATALOG}.system.{procedure}({text})").collect()
    return dict(row.asDict())


def _sums(spark: Any, work: Work) -> Mapping[str, Any]:
    """Return of each table, of names with blanks between, what a comparison needs."""
    return {
        table: list(spark.sql(work["query"].format(table)).collect()[0])
        for table in work["table"].split()
    }


STEPS: Final[Mapping[str, Callable[[Any, Work], Mapping[str, Any]]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "merge": _merge,
    "add": _add,
    "compact": _compact,
    "expire": _expire,
    "sums": _sums,
}

if __name__ == "__main__":
    sys.exit(main())
