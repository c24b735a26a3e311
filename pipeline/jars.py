"""engine: sets of jars, Spark's among them, fetched once into a cache that outlives the checkout.

Ivy, which PySpark ships, resolves and downloads; this module names no repository. Each jar is
compared with its checksum in the lock of its set, so a cache is either complete or fetched again.
`python -m pipeline.prepare` fetches them ahead of time.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import errors, java

ICEBERG = "1.12.0"
SPARK_AVRO = "4.1.1"
"""The newest of 4.1 that Maven Central has; PySpark itself is of a later patch."""
HADOOP = "3.4.2"
AWS_SDK = "2.54.17"
FETCH_TIMEOUT_SECONDS = 1800
POLL_SECONDS = 0.5

SETTINGS_XML = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

IVY_XML = """<ivy-module version="2.0">
  <info organisation="boathouse" module="jars"/>
  <configurations defaultconfmapping="*->master"><conf name="one"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""

SPARK_DEPENDENCIES = f"""
    <dependency org="org.apache.iceberg" name="iceberg-spark-runtime-4.1_2.13" rev="{ICEBERG}"
                transitive="false"/>
    <dependency org="org.apache.spark" name="spark-avro_2.13" rev="{SPARK_AVRO}"
                transitive="false"/>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{HADOOP}" transitive="false"/>
    <dependency org="software.amazon.awssdk" name="kms" rev="{AWS_SDK}" transitive="false"/>
    <dependency org="software.amazon.awssdk" name="s3" rev="{AWS_SDK}" conf="*->default"/>
    <dependency org="software.amazon.awssdk" name="sts" rev="{AWS_SDK}" conf="*->default"/>
    <dependency org="software.amazon.awssdk" name="s3-transfer-manager" rev="{AWS_SDK}"
                conf="*->default"/>
    <dependency org="software.amazon.awssdk" name="apache-client" rev="{AWS_SDK}"
                conf="*->default"/>
    <exclude org="io.netty"/><exclude org="org.slf4j"/><exclude org="commons-logging"/>
    <exclude org="org.apache.httpcomponents"/>
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class JarSet:
    """Jars that are fetched together. name: of their folder; label: in messages.

    lock: their checksums. dependencies: as Ivy writes them.
    """

    name: str
    label: str
    size_mib: int
    lock: Path
    dependencies: str

    def locked(self) -> dict[str, str]:
        """Return the locked jars: file name -> SHA-256 in hexadecimal."""
        lines = self.lock.read_text().splitlines()
        rows = (line.split() for line in lines if not line.startswith("#"))
        return {name: digest for digest, name in (row for row in rows if row)}


SPARK = JarSet(
    name="jars",
    label="Spark's jars",
    size_mib=63,
    lock=Path(__file__).with_name("jars.lock"),
    dependencies=SPARK_DEPENDENCIES,
)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of everything fetched once: BOATHOUSE_CACHE, or the user's cache."""
    if environment.get("BOATHOUSE_CACHE"):
        return Path(environment["BOATHOUSE_CACHE"]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "boathouse"
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "boathouse"


def ensure(
    runtime: java.Java,
    environment: Mapping[str, str],
    *,
    say: Callable[[str], None],
    may_fetch: bool = True,
    jar_set: JarSet | None = None,
) -> Path:
    """Return the folder that holds exactly the locked jars, fetching them when it does not.

    say: takes one line of progress. jar_set: default: Spark's. Raises JarsMissing.
    """
    jar_set = SPARK if jar_set is None else jar_set
    cache = cache_folder(environment)
    fingerprint = hashlib.sha256(jar_set.lock.read_bytes()).hexdigest()
    folder = cache / f"{jar_set.name}-{fingerprint[:12]}"
    stamp = folder / ".complete"
    if stamp.exists():
        return folder
    if not may_fetch:
        raise errors.JarsMissing(f"{jar_set.label} are not installed; run `make setup-all`")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / ".lock").open("w")
    except OSError as error:
        raise errors.JarsMissing(
            f"the cache {cache} cannot be used ({error.strerror}); set BOATHOUSE_CACHE to another "
            "folder"
        ) from error
    with lock:
        # Of two first jobs at once, the second waits; then the jars are there.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            _fill(runtime, environment, jar_set, folder, say=say)
    return folder


def _fill(
    runtime: java.Java,
    environment: Mapping[str, str],
    jar_set: JarSet,
    folder: Path,
    *,
    say: Callable[[str], None],
) -> None:
    cache, locked = cache_folder(environment), jar_set.locked()
    say(f"fetching {jar_set.label}, {jar_set.size_mib} MB, once, into {cache}")
    started = time.monotonic()
    _fetch(runtime, environment, jar_set, folder, say=say)
    try:
        _verify(folder, locked)
    finally:
        # Ivy's own cache is a second copy of the jars; of wrong ones it would be used again.
        shutil.rmtree(cache / "ivy", ignore_errors=True)
    (folder / ".complete").touch()
    say(f"fetched {len(locked)} jars in {time.monotonic() - started:.0f} s")


def _fetch(
    runtime: java.Java,
    environment: Mapping[str, str],
    jar_set: JarSet,
    folder: Path,
    *,
    say: Callable[[str], None],
) -> None:
    cache = cache_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    settings = cache / "ivysettings.xml"
    settings.write_text(SETTINGS_XML.format(cache=cache / "ivy"))
    module = cache / "ivy.xml"
    module.write_text(IVY_XML.format(dependencies=jar_set.dependencies))
    command = [str(runtime.command), *java.trust_options(cache, environment)]
    command += ["-cp", str(ivy_jar()), "org.apache.ivy.Main", "-warn"]
    command += ["-settings", str(settings), "-ivy", str(module), "-types", "jar", "bundle"]
    command += ["-retrieve", str(folder / "[artifact]-[revision].[ext]")]
    deadline = time.monotonic() + FETCH_TIMEOUT_SECONDS
    log = cache / "ivy.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        said = 0
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
                raise errors.JarsMissing(f"fetching {jar_set.label} took too long; see {log}")
            time.sleep(POLL_SECONDS)
            fetched = _fetched_mib(cache / "ivy")
            if fetched >= said + 10:
                said = fetched
                say(f"fetched {fetched} of {jar_set.size_mib} MB")
    if process.returncode:
        tail = "; ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise errors.JarsMissing(f"{jar_set.label} could not be fetched: {tail} (see {log})")


def _fetched_mib(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.jar*")) // 1_000_000


def _verify(folder: Path, locked: Mapping[str, str]) -> None:
    present = {path.name: path for path in folder.glob("*.jar")}
    for name in sorted(set(locked) - set(present)):
        raise errors.JarsMissing(f"{name} did not arrive in {folder}")
    for name, path in present.items():
        if name not in locked:
            path.unlink()
        elif hashlib.sha256(path.read_bytes()).hexdigest() != locked[name]:
            path.unlink()
            raise errors.JarsMissing(f"{name} does not match its checksum; it was removed")


def ivy_jar() -> Path:
    """Return Ivy, which PySpark carries. Raises JarsMissing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise errors.JarsMissing("PySpark is not installed; run `make setup-all`")
    ivy_jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not ivy_jars:
        raise errors.JarsMissing("PySpark carries no Ivy; its installation is damaged")
    return ivy_jars[0]
