"""rule: the facts that the s3tables API raises by itself, in AWS's own sentences and with reasons.

What storage and the catalog raise keeps its class; `s3tables.wire_errors` gives it AWS's words.
"""

from __future__ import annotations

from typing import ClassVar


class S3TablesError(Exception):
    """A condition of a request. `str()` is the sentence that AWS sends."""

    sentence: ClassVar[str] = ""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.sentence if message is None else message)


class BadRequest(S3TablesError):
    """The request says something that no state could make right."""


class InvalidNamespaceName(BadRequest):
    """The name breaks a rule of namespace names."""

    sentence = (
        "The specified namespace name is not valid: it must begin and end with a letter or a "
        "digit, and must not begin with aws"
    )


class InvalidTableName(BadRequest):
    """The name breaks a rule of table names."""

    sentence = "The specified table name is not valid: it must begin with a letter or a digit"


class InvalidContinuationToken(BadRequest):
    """The page token was not made here, or for another listing."""

    sentence = "The continuation token is not valid."


class NothingToRename(BadRequest):
    """A rename names neither a new namespace nor a new name."""

    sentence = "Neither a new namespace name nor a new table name is specified."


class NotFound(S3TablesError):
    """What the request names does not exist."""


class NoSuchTableBucket(NotFound):
    """There is no such table bucket in this region and account."""

    sentence = "The specified bucket does not exist."


class NoSuchDestinationNamespace(NotFound):
    """A table is to be moved into a namespace that does not exist."""

    sentence = "The specified destination namespace does not exist."


class NoSuchTable(NotFound):
    """There is no such table."""

    sentence = "The specified table does not exist."


class Conflict(S3TablesError):
    """The state of things stands against the request."""


class BucketNotEmpty(Conflict):
    """A table bucket still holds namespaces."""

    sentence = "The bucket that you tried to delete is not empty."


class BucketNameTaken(Conflict):
    """Another account, or a general bucket, has the name."""

    sentence = (
        "The requested bucket name is not available. The bucket namespace is shared by all users "
        "of the system. Specify a different name and try again."
    )


class NotImplementedHere(S3TablesError):
    """The request asks for something that Boathouse does not do."""
