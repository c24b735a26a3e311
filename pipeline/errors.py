"""rule: the pipeline's errors; `pipeline.__main__` prints each as one sentence."""

from __future__ import annotations


class PipelineError(Exception):
    """A job cannot continue; str() is one sentence for the user."""


class BadArgument(PipelineError):
    """A place, a table's name, a transform or another argument cannot be understood."""


class NoServer(PipelineError):
    """No running server was found, or it does not answer."""


class NoJava(PipelineError):
    """No Java runtime that Spark runs on was found."""


class JarsMissing(PipelineError):
    """Spark's jars could not be fetched, or do not match their checksums."""


class SparkFailed(PipelineError):
    """The JVM did not start, or a job in it failed; nothing was committed."""


class Overtaken(PipelineError):
    """Another job's commit came first and conflicts with this one; nothing was committed."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; nothing was loaded, run the same command again to load what is missing"
        )
        self.reason = reason


class OutcomeUnknown(PipelineError):
    """The server's answer to the commit was lost; running the job again is safe."""


class SourceChanged(PipelineError):
    """A source object changed while it was being read; nothing was committed."""


class BadSource(PipelineError):
    """A source cannot be read as the load says; nothing was committed."""


class NotForArrow(PipelineError):
    """The load needs Spark: Arrow's path would not give the same result."""
