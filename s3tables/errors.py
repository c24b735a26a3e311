"""rule: the conditions that the s3tables API itself raises, with AWS's messages.

Errors of storage and the catalog keep their class; `s3tables.wire_errors` gives them AWS's message.
"""

from __future__ import annotations

from typing import ClassVar


class S3TablesError(Exception):
    """A condition of a request. `str()` is the message that AWS sends."""

    sentence: ClassVar[str] = ""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.sentence if message is None else message)


class BadRequest(S3TablesError):
    """The request is invalid whatever the state of the server."""


class InvalidNamespaceName(BadRequest):
    """The name violates a rule for namespace names."""

    sentence = (
        "The specified namespace name is not valid: it must begin and end with a letter or a "
        "digit, and must not begin with aws"
    )


class InvalidTableName(BadRequest):
    """The name violates a rule for table names."""

    sentence = "The specified table name is not valid: it must begin with a letter or a digit"


class InvalidContinuationToken(BadRequest):
    """The continuation token is malformed, or belongs to another listing."""

    sentence = "The continuation token is not valid."


class NothingToRename(BadRequest):
    """A rename names neither a new namespace nor a new name."""

    sentence = "Neither a new namespace name nor a new table name is specified."


class NotFound(S3TablesError):
    """A resource that the request names does not exist."""


class NoSuchTableBucket(NotFound):
    """There is no such table bucket in this region and account."""

    sentence = "The specified bucket does not exist."


class NoSuchDestinationNamespace(NotFound):
    """A table is to be moved into a namespace that does not exist."""

    sentence = "The specified destination namespace does not exist."


class NoSuchTableResource(NotFound):
    """There is no such table."""

    sentence = "The specified table does not exist."


class NoSuchPolicy(NotFound):
    """The table bucket or table has no policy."""

    sentence = "The specified resource does not have a resource policy."


class NoEncryption(NotFound):
    """The table bucket or table has no encryption."""

    sentence = "The specified resource does not have an encryption configuration."


class PublicPolicyRefused(S3TablesError):
    """A policy lets everyone in, which the block of public access refuses."""

    sentence = (
        "The resource policy is public: it allows everyone an action without a condition that "
        "names the callers. Public access to table buckets and tables is always blocked."
    )


class NotForCustomerTables(S3TablesError):
    """The operation exists only for tables that AWS services own."""

    sentence = "The specified method is not allowed against this resource."


class Conflict(S3TablesError):
    """The request conflicts with the current state."""


class BucketNameTaken(Conflict):
    """Another account, or a general bucket, has the name."""

    sentence = (
        "The requested bucket name is not available. The bucket namespace is shared by all users "
        "of the system. Specify a different name and try again."
    )
