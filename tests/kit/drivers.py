"""Java drivers of databases that tests read, fetched once by Ivy into the pipeline's cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from pipeline import jars, java

SQLITE = ("org.xerial", "sqlite-jdbc", "3.50.3.0")
SQLITE_SHA256 = "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08"
FETCH_SECONDS = 300
IVY_XML = """<ivy-module version="2.0">
  <info organisation="boathouse" module="drivers"/>
  <configurations defaultconfmapping="*->master"><conf name="one"/></configurations>
  <dependencies><dependency org="{}" name="{}" rev="{}" transitive="false"/></dependencies>
</ivy-module>
"""


def sqlite_jar() -> Path:
    """Return SQLite's driver; skip the test if it cannot be fetched."""
    cache = jars.cache_folder(os.environ)
    jar = cache / "drivers" / f"{SQLITE[1]}-{SQLITE[2]}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as name:
            _fetch(Path(name), cache)
            (Path(name) / jar.name).replace(jar)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == SQLITE_SHA256
    return jar


def _fetch(folder: Path, cache: Path) -> None:
    runtime = java.find(os.environ)
    settings, module = folder / "settings.xml", folder / "ivy.xml"
    settings.write_text(jars.SETTINGS_XML.format(cache=folder / "ivy"))
    module.write_text(IVY_XML.format(*SQLITE))
    done = subprocess.run(
        [str(runtime.command), *java.trust_options(cache, os.environ), "-cp", str(jars.ivy_jar()),
         "org.apache.ivy.Main", "-warn", "-settings", str(settings), "-ivy", str(module),
         "-types", "jar", "bundle", "-retrieve", str(folder / "[artifact]-[revision].[ext]")],
        capture_output=True, text=True, timeout=FETCH_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"SQLite's driver cannot be fetched: {done.stdout.strip()[-300:]}")
