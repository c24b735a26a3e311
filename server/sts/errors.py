"""rule: the errors of the STS API, without statuses."""

from __future__ import annotations


class StsError(Exception):
    """A condition of a request to STS. `str()` is one sentence for the user."""


class PackedPolicyTooLarge(StsError):
    """The policies of a session are too long for its token."""


class ParameterNotOffered(StsError):
    """A parameter asks for something that this server does not have."""


class InvalidParameter(StsError):
    """A parameter has a value that is valid in the model and not for this request."""
