"""rule: what can go wrong with jobs: facts, without a word of HTTP."""

from __future__ import annotations


class JobError(Exception):
    """The base of this package's errors."""


class BadSchedule(JobError):
    """A pipeline's file, or a schedule in it, cannot be read."""


class NoSuchPipeline(JobError):
    """There is no pipeline of this name in the server's folder."""


class NoSuchRun(JobError):
    """There is no such run, or it is not the caller's."""


class AlreadyRunning(JobError):
    """Another run of the same job has not ended."""


class NotRunning(JobError):
    """The run has ended."""


class BadJobRequest(JobError):
    """A request's parameter or body cannot be read."""
