"""rule: the errors of the metadata rules.

Every error is a `MetadataError`; its text is the message for the client. After any of them nothing
has changed: the rules return a new value or raise.
"""

from __future__ import annotations


class MetadataError(Exception):
    """A rule of table or view metadata is violated."""


class InvalidMetadata(MetadataError):
    """The bytes are not valid table or view metadata."""


class Undecoded(InvalidMetadata):
    """Decoding the bytes has ended the decoding process twice; they may be valid."""


class BadUpdate(MetadataError):
    """An update or a create request is malformed, unknown, or violates a rule."""


class BadRequirement(BadUpdate):
    """A requirement is malformed, unknown, or not allowed there."""


class RequirementFailed(MetadataError):
    """The table or view is no longer in the state that the writer read."""


class ColumnsDiffer(RequirementFailed):
    """Columns that files bring along do not fit the table's columns of now.

    The same rows, written again for the current columns, may fit.
    """


class StaleSequenceNumber(MetadataError):
    """Another snapshot came first: the sequence number or first row id is behind the table's.

    The same change, built again on the current metadata, may succeed.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"Validation failed, please retry: {reason}")
