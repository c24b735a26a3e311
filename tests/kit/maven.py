"""Class paths that Maven resolves, for Java programs that tests run."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pipeline import jars, java

FETCH_SECONDS_MAX: Final = 1_800


class CannotFetch(Exception):
    """Maven is absent, or could not fetch the class path. `str()` says which."""


def class_path(runtime: java.Java, pom: Path, *, name: str, called: str, size: str) -> str:
    """Return the class path of a pom; Maven is asked once, and again if a jar is gone.

    name: of its file in the cache. called: what messages call it. size: of what is fetched.
    """
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    cache = jars.cache_folder(os.environ)
    remembered = cache / f"{name}-{digest}.classpath"
    if remembered.exists():
        jar_paths = remembered.read_text()
        if all(Path(jar).exists() for jar in jar_paths.split(os.pathsep)):
            return jar_paths
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotFetch(
            f"Maven fetches {called}, and there is no `mvn` on the PATH; install Maven 3"
        )
    print(f"fetching {called} with Maven, {size}, once", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    fetched = remembered.with_suffix(".new")
    command = [maven, "-q", "-B", "-Dstyle.color=never", "-f", str(pom)]
    command += ["dependency:build-classpath", f"-Dmdep.outputFile={fetched}"]
    done = subprocess.run(
        command,
        env={**os.environ, "JAVA_HOME": str(runtime.home)},
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise CannotFetch(
            f"Maven could not fetch {called}:\n{(done.stdout + done.stderr)[-2_000:]}"
        )
    fetched.replace(remembered)
    return remembered.read_text()
