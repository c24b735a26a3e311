"""rule: what the metadata rules refuse, as facts.

Every error is a `MetadataError`; its text is the sentence a client may read. None of them means
that anything changed: the rules return a new value or raise.
"""

from __future__ import annotations


class MetadataError(Exception):
    """A rule of table or view metadata was not kept."""


class InvalidMetadata(MetadataError):
    """The bytes are not table or view metadata, or contradict themselves."""


class BadUpdate(MetadataError):
    """An update or a create request is malformed, unknown, or would break a rule."""


class BadRequirement(BadUpdate):
    """A requirement is malformed, unknown, or stands where it must not."""


class RequirementFailed(MetadataError):
    """The table or view is no longer in the state the writer had seen."""


class StaleSequenceNumber(MetadataError):
    """Another snapshot came first: sequence number or first row id lie behind the table's.

    The same change, built anew on the current metadata, may pass.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"Validation failed, please retry: {reason}")
