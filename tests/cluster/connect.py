"""A Spark Connect server on this machine, of PySpark's own jars and those of the pipeline."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pipeline import gateway, jars, java
from tests.cluster import standalone

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": standalone.HOST,
    "spark.driver.bindAddress": standalone.HOST,
    "spark.connect.grpc.binding.address": standalone.HOST,
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.extensions": ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
}


@contextlib.contextmanager
def running(folder: Path, *, has_jars: bool = True, **more: str) -> Iterator[str]:
    """Start a server; end it with the block. Yields its address. more: settings, with __ for dots.

    has_jars: whether it has Iceberg's runtime, hadoop-aws and the rest of the pipeline's jars.
    """
    runtime = java.find(os.environ)
    folder.mkdir()
    environment = gateway.environment_of(runtime, {**os.environ, "SPARK_LOCAL_IP": standalone.HOST})
    own = {**SETTINGS, **{name.replace("__", "."): value for name, value in more.items()}}
    if has_jars:
        cached = jars.ensure(runtime, os.environ, say=print, may_fetch=False)
        own["spark.jars"] = ",".join(str(jar) for jar in sorted(cached.glob("*.jar")))
    else:
        del own["spark.sql.extensions"]
    settings = [word for name, value in own.items() for word in ("--conf", f"{name}={value}")]
    command = gateway.launcher_command(
        runtime, [*settings, "--class", SERVER, "spark-internal"], environment
    )
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, cwd=folder
        )
    try:
        started = r"Spark Connect server started at: \S+:(\d+)"
        port = standalone.wait_for(log, started).rpartition(":")[2]
        yield f"sc://{standalone.HOST}:{port}"
    finally:
        standalone.end([process])
