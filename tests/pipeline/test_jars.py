"""The cache of Spark's jars: whole and right, or fetched again. Ivy is played by a small script."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from pathlib import Path

import pytest

from pipeline import errors, jars, java

JARS = {"one-1.0.jar": b"first jar", "two-2.0.jar": b"second jar"}

# Writes the files of SUPPLY where `-retrieve` says, and counts its runs.
IVY = """#!/bin/sh
echo call >> "{supply}/../calls"
while [ $# -gt 0 ]; do
  if [ "$1" = -retrieve ]; then folder=$(dirname "$2"); fi
  shift
done
if [ -e "{supply}/refuse" ]; then echo "no route to the repository"; exit 1; fi
mkdir -p "{cache}/ivy" && cp "{supply}"/*.jar "{cache}/ivy/" && cp "{supply}"/*.jar "$folder"/
"""


class Place:
    """A cache, a lock, and a runtime whose Ivy supplies what a test puts into `supply`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.supply = folder / "supply"
        self.supply.mkdir()
        for name, body in JARS.items():
            (self.supply / name).write_bytes(body)
        self.lock = folder / "jars.lock"
        lines = [f"{hashlib.sha256(body).hexdigest()}  {name}" for name, body in JARS.items()]
        self.lock.write_text("\n".join(["# comment", *lines, ""]))
        command = folder / "java" / "bin" / "java"
        command.parent.mkdir(parents=True)
        command.write_text(IVY.format(supply=self.supply, cache=self.cache))
        command.chmod(0o755)
        self.runtime = java.Java(home=folder / "java", major=17, bundled=False)
        self.said: list[str] = []

    def ensure(self) -> Path:
        environment = {"BOATHOUSE_CACHE": str(self.cache), "SSL_CERT_FILE": "/nowhere"}
        return jars.ensure(self.runtime, environment, say=self.said.append)

    @property
    def calls_count(self) -> int:
        counter = self.folder / "calls"
        return len(counter.read_text().splitlines()) if counter.exists() else 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setattr(jars, "SPARK", dataclasses.replace(jars.SPARK, lock=place.lock))
    monkeypatch.setattr(jars, "ivy_jar", lambda: tmp_path / "ivy.jar")
    monkeypatch.setattr(jars, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(java, "trust_options", lambda cache, environment: ())
    return place


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jar")}


def test_ensure_fetches_the_locked_jars_once_and_says_so(place: Place) -> None:
    folder = place.ensure()
    assert contents(folder) == JARS
    assert not (place.cache / "ivy").exists(), "the jars lie there twice"
    assert place.said[0] == f"fetching Spark's jars, 63 MB, once, into {place.cache}"
    assert place.said[-1].startswith("fetched 2 jars in ")
    place.said.clear()
    assert place.ensure() == folder
    assert (place.calls_count, place.said) == (1, [])


def test_ensure_with_another_lock_uses_another_folder(place: Place) -> None:
    first = place.ensure()
    place.lock.write_text(place.lock.read_text() + "# a later version\n")
    assert place.ensure() != first
    assert place.calls_count == 2


def test_ensure_drops_a_jar_that_the_lock_does_not_name(place: Place) -> None:
    (place.supply / "stray-9.jar").write_bytes(b"not wanted")
    assert contents(place.ensure()) == JARS


def test_ensure_with_a_wrong_checksum_refuses_and_fetches_anew_next_time(place: Place) -> None:
    (place.supply / "two-2.0.jar").write_bytes(b"something else")
    with pytest.raises(errors.JarsMissing) as caught:
        place.ensure()
    assert str(caught.value) == "two-2.0.jar does not match its checksum; it was removed"
    assert not (place.cache / "ivy").exists(), "Ivy would hand out the same file again"
    (place.supply / "two-2.0.jar").write_bytes(JARS["two-2.0.jar"])
    assert contents(place.ensure()) == JARS
    assert place.calls_count == 2


def test_ensure_with_a_jar_missing_names_it_and_is_not_complete(place: Place) -> None:
    (place.supply / "one-1.0.jar").unlink()
    for attempt in (1, 2):
        with pytest.raises(errors.JarsMissing, match=r"^one-1\.0\.jar did not arrive in "):
            place.ensure()
        assert place.calls_count == attempt


def test_ensure_when_ivy_fails_gives_its_last_words(place: Place) -> None:
    (place.supply / "refuse").touch()
    with pytest.raises(errors.JarsMissing) as caught:
        place.ensure()
    assert str(caught.value) == (
        "Spark's jars could not be fetched: no route to the repository "
        f"(see {place.cache / 'ivy.log'})"
    )


def test_ensure_by_two_first_jobs_at_once_fetches_once(place: Place) -> None:
    gate = threading.Barrier(2)
    folders: list[Path] = []

    def job() -> None:
        gate.wait()
        folders.append(place.ensure())

    threads = [threading.Thread(target=job) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders[0] == folders[1]
    assert contents(folders[0]) == JARS
    assert place.calls_count == 1


def test_ensure_with_a_cache_that_cannot_be_made_names_it_and_the_setting(place: Place) -> None:
    place.cache.write_text("")
    with pytest.raises(errors.JarsMissing) as caught:
        place.ensure()
    assert str(caught.value) == (
        f"the cache {place.cache} cannot be used (File exists); set BOATHOUSE_CACHE to another "
        "folder"
    )


def test_the_lock_names_each_jar_once_with_a_whole_checksum() -> None:
    rows = [line for line in jars.SPARK.lock.read_text().splitlines() if not line.startswith("#")]
    locked = jars.SPARK.locked()
    assert len(locked) == len([row for row in rows if row.strip()])
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in locked.values())
    for name in (f"hadoop-aws-{jars.HADOOP}.jar", f"kms-{jars.AWS_SDK}.jar"):
        assert name in locked


def test_cache_folder_is_the_configured_one_or_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars.sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert jars.cache_folder({"BOATHOUSE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert jars.cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/boathouse")
    assert jars.cache_folder({}) == tmp_path / ".cache" / "boathouse"
    monkeypatch.setattr(jars.sys, "platform", "darwin")
    assert jars.cache_folder({}) == tmp_path / "Library" / "Caches" / "boathouse"
