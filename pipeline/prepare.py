"""wiring: `python -m pipeline.prepare` fetches and writes what the first job would wait for."""

from __future__ import annotations

import os
import sys

from pipeline import archive, errors, jars, java


def main() -> None:
    """Fetch Spark's jars, and write the archive of its classes."""
    environment = dict(os.environ)
    runtime = java.find(environment)
    folder = jars.ensure(runtime, environment, say=_say)
    archive.ensure(runtime, folder, environment, say=_say)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command's progress


if __name__ == "__main__":
    try:
        main()
    except errors.PipelineError as error:
        sys.exit(f"pipeline: {error}")
