"""engine: starts and ends Spark's JVM, without a shell.

PySpark would start it through `spark-submit`, which puts secrets on a command line and asks for a
Java module that trimmed runtimes lack. This module asks Spark's own launcher for the command, drops
that argument, and passes settings in a file that only this user can read. The JVM exits when its
standard input closes, so that a killed job leaves no process.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline import errors, java, logs

START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 30
POLL_SECONDS = 0.02
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
EXCEPTION = re.compile(r'^Exception in thread "[^"]*" [\w.$]+: (.+)')
UNWANTED_MODULE = "--add-modules=jdk.incubator.vector"


@contextmanager
def running(
    runtime: java.Java,
    settings: Mapping[str, str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    jvm_options: Sequence[str] = (),
    log: Path | None = None,
    stop_timeout_seconds: float = STOP_TIMEOUT_SECONDS,
) -> Iterator[Callable[[], None]]:
    """Run a JVM with these Spark settings; two environment variables lead PySpark to it.

    Yields a function that kills the JVM: every call to the JVM then fails at once.
    folder: a private temporary folder, for the settings' file. log: of the JVM's output; None for
    one in that folder.
    stop_timeout_seconds: a JVM that takes longer to end is killed.
    Raises SparkFailed.
    """
    properties = folder / "spark.properties"
    _write_private(properties, _properties_text(settings))
    connection_file = folder / "gateway"
    process_environment = {
        **environment_of(runtime, environment),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
    }
    java_command, *arguments = launcher_command(
        runtime, ["--properties-file", str(properties), "pyspark-shell"], process_environment
    )
    command = [java_command, *jvm_options, *arguments]
    log = log or folder / "spark.log"
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=process_environment,
        start_new_session=True,
    )
    assert process.stdout is not None, "it was started with pipes"
    with (
        process.stdout as output,
        logs.copying(output, log) as copied,
        _ended(process, stop_timeout_seconds),
    ):
        port, secret = _wait_for_gateway(process, connection_file, log, copied)
        # Spark has read the file by now; a killed job must not leave the keys on disk.
        properties.unlink()
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret
        yield process.kill


@contextmanager
def _ended(process: subprocess.Popen[bytes], timeout_seconds: float) -> Iterator[None]:
    """End the JVM with the block; one that takes longer is killed."""
    try:
        yield
    finally:
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def spark_home() -> Path:
    """Return the folder of the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise errors.SparkFailed("PySpark is not installed; run `make setup-all`")
    return Path(spec.origin).parent


def environment_of(runtime: java.Java, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process of Spark."""
    return {
        **environment,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(runtime.home),
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def launcher_command(
    runtime: java.Java, arguments: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Return the command that Spark's launcher gives for what `spark-submit` would run.

    Raises SparkFailed.
    """
    try:
        launcher = subprocess.run(
            [
                str(runtime.command),
                "-cp",
                str(spark_home() / "jars" / "*"),
                "org.apache.spark.launcher.Main",
                "org.apache.spark.deploy.SparkSubmit",
                *arguments,
            ],
            capture_output=True,
            env=dict(environment),
            timeout=START_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise errors.SparkFailed(f"Spark's launcher failed: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise errors.SparkFailed(
            f"Spark's launcher did not end in {START_TIMEOUT_SECONDS} s"
        ) from error
    if launcher.returncode:
        raise errors.SparkFailed(
            "Spark's launcher failed: " + launcher.stderr.decode(errors="replace").strip()[-500:]
        )
    words = launcher.stdout.decode().lstrip("\n\0").split("\0")
    argument_words = [word.lstrip("\n") for word in words if word.strip("\n")]
    return [word for word in argument_words if word != UNWANTED_MODULE]


def _wait_for_gateway(
    process: subprocess.Popen[bytes], connection_file: Path, log: Path, copied: threading.Thread
) -> tuple[int, str]:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if connection_file.exists():
            content = connection_file.read_bytes()
            if len(content) >= 8:
                port, length = struct.unpack(">ii", content[:8])
                if len(content) >= 8 + length:
                    _check_listening(port)
                    return port, content[8 : 8 + length].decode()
        if process.poll() is not None:
            break
        time.sleep(POLL_SECONDS)
    process.kill()
    copied.join(logs.END_SECONDS)
    log_lines = log.read_text(errors="replace").splitlines()
    raise errors.SparkFailed(f"Spark's JVM did not start: {_last_words(log_lines)}")


def _last_words(log_lines: Sequence[str]) -> str:
    """Return the exception's message from a JVM's log, or the last three lines."""
    for line in log_lines:
        if match := EXCEPTION.search(line):
            return match.group(1)
    return " ".join(line.strip() for line in log_lines[-3:]) or "its log is empty"


def _check_listening(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=START_TIMEOUT_SECONDS):
        return


def _properties_text(settings: Mapping[str, str]) -> str:
    # Java's properties format without line folding; no key holds `=`, `:` or white space.
    lines = (f"{key}={_escaped(value)}\n" for key, value in sorted(settings.items()))
    return "".join(lines)


def _escaped(value: str) -> str:
    text = "".join(ESCAPES.get(character, character) for character in value)
    # A reader of the format skips blanks before a value.
    return "\\" + text if text.startswith(" ") else text


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
