"""wiring: packages that a job needs, installed into this environment at their first use."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from pipeline import (
    connect,
    errors,
    masters,
    progress,
    topics,
)

CHECKOUT = Path(__file__).resolve().parents[1]


def ensure_spark(say: progress.Say) -> None:
    """Install PySpark, and prepare what its JVM starts from. Raises SparkFailed."""
    if is_installed("pyspark"):
        return
    say("PySpark is not installed yet; installing it into .venv (about 650 MB on disk)")
    if not _install("spark"):
        raise errors.SparkFailed("PySpark could not be installed; see pip's message above")
    # What it cannot prepare, the job asks for again and says so.
    subprocess.run([sys.executable, "-m", "pipeline.prepare"], cwd=CHECKOUT, check=False)


def ensure_connect(master: str, say: progress.Say) -> None:
    """Install what PySpark needs beside itself for a Spark Connect server. Raises SparkFailed."""
    if masters.parse_connect(master) is None or is_installed(connect.PACKAGE):
        return
    say("the client of Spark Connect is not installed yet; installing it (about 20 MB to fetch)")
    if not _install("connect"):
        raise errors.SparkFailed("Spark Connect's client could not be installed; see pip's message")


def ensure_kafka(say: progress.Say) -> None:
    """Install what reads topics of Kafka. Raises PipelineError."""
    if not is_installed(topics.PACKAGE):
        say("Kafka's client is not installed yet; installing it (5 MB to fetch)")
        if not _install("kafka"):
            raise errors.PipelineError("Kafka's client could not be installed; see pip's message")


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _install(group: str) -> bool:
    """Install a group of packages into this environment; return whether it could be."""
    command = [sys.executable, str(CHECKOUT / "provision.py"), group]
    if subprocess.run(command, check=False).returncode:
        return False
    importlib.invalidate_caches()
    return True
