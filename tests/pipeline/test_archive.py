"""The archive of Spark's classes: used where it fits, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import archive, gateway, jars, java

# In a process of its own: this one may have a session of Spark.
ENDED_EARLY = """
import os, sys
from unittest import mock

from pyspark.sql import SparkSession

from pipeline import archive, jars, java

sys.prefix = sys.argv[1]
archive.STOP_TIMEOUT_SECONDS = 0.001
archive._run = lambda *_: None  # its statements take a while
# So does a session's start. Java has the classes of its own start to write.
SparkSession.Builder.getOrCreate = lambda self: mock.Mock()
runtime = java.find(os.environ)
folder = jars.ensure(runtime, os.environ, say=print, may_fetch=False)
archive.ensure(runtime, folder, os.environ, say=print)
"""


@pytest.fixture
def runtime() -> java.Java:
    return java.find(os.environ)


@pytest.fixture
def folder(runtime: java.Java) -> Path:
    return jars.ensure(runtime, os.environ, say=print, may_fetch=False)


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of Python that has no archive yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "my env"))
    return tmp_path / "my env"


def maps(runtime: java.Java, jars: Path, folder: Path) -> str:
    """Start and end Spark's JVM as a job does; return the files that it had in memory."""
    folder.mkdir()
    with gateway.running(
        runtime,
        {"spark.master": "local[1]", "spark.driver.extraClassPath": f"{jars}/*"},
        folder=folder,
        environment={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        jvm_options=archive.options(runtime, jars),
    ):
        children = subprocess.run(
            ["pgrep", "-P", str(os.getpid()), "-f", str(folder)], capture_output=True, check=True
        )
        return Path(f"/proc/{children.stdout.decode().split()[0]}/maps").read_text()


@pytest.mark.spark
def test_a_job_s_jvm_maps_the_archive_that_was_prepared(
    runtime: java.Java, folder: Path, tmp_path: Path
) -> None:
    path = archive.location(runtime, folder)
    if not path.exists():
        pytest.fail("there is no archive; run `python -m pipeline.prepare`")
    assert path.name in maps(runtime, folder, tmp_path / "job")


@pytest.mark.spark
def test_a_damaged_archive_is_ignored(
    runtime: java.Java, folder: Path, prefix: Path, tmp_path: Path
) -> None:
    path = archive.location(runtime, folder)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no archive" * 1000)
    assert path.name not in maps(runtime, folder, tmp_path / "job")


def test_without_an_archive_a_jvm_has_no_further_options(
    runtime: java.Java, folder: Path, prefix: Path
) -> None:
    assert archive.options(runtime, folder) == ()


def test_another_java_and_other_jars_have_an_archive_of_their_own(
    runtime: java.Java, folder: Path, tmp_path: Path
) -> None:
    other = java.Java(home=tmp_path, major=21, bundled=False)
    places = {
        archive.location(runtime, folder),
        archive.location(other, folder),
        archive.location(runtime, tmp_path),
    }
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.9"')
    places.add(archive.location(other, folder))
    assert len(places) == 4


def test_a_java_that_writes_no_archive_is_no_error_and_old_archives_go(
    runtime: java.Java, folder: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_run_small_job", lambda *_: True)
    old = archive.location(runtime, folder).with_name(archive.NAME.format(digest="old"))
    old.parent.mkdir(parents=True)
    old.touch()
    lines: list[str] = []
    archive.ensure(runtime, folder, os.environ, say=lines.append)
    assert lines[-1] == "this Java writes no archive of classes; Spark starts without one"
    assert not old.exists()
    assert archive.options(runtime, folder) == ()


@pytest.mark.spark
def test_a_java_that_takes_too_long_is_ended_and_its_archive_is_not_used(
    runtime: java.Java, folder: Path, prefix: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDED_EARLY, str(prefix)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "preparing a faster start of Spark, once",
        "Java had not written the archive of classes after 0.001 s; "
        "Spark starts without one until this is run again",
    ]
    place = archive.location(runtime, folder).parent
    assert [path.name for path in place.iterdir()] == [".lock"]


def test_what_java_had_begun_to_write_when_its_time_was_over_goes(
    runtime: java.Java, folder: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a JVM that is killed leaves a part of the archive depends on the moment."""

    def write_a_part(*arguments: object) -> bool:
        Path(str(arguments[-1])).write_bytes(b"the first half of an archive")
        return False

    monkeypatch.setattr(archive, "_run_small_job", write_a_part)
    archive.ensure(runtime, folder, os.environ, say=lambda _: None)
    place = archive.location(runtime, folder).parent
    assert [path.name for path in place.iterdir()] == [".lock"]
    assert archive.options(runtime, folder) == ()


def test_a_place_that_cannot_be_written_is_named(
    runtime: java.Java, folder: Path, prefix: Path
) -> None:
    prefix.write_text("a file, not a folder")
    lines: list[str] = []
    archive.ensure(runtime, folder, os.environ, say=lines.append)
    place = prefix / "share" / "boathouse"
    assert lines == [f"Spark starts without an archive of its classes (Not a directory: {place})"]
