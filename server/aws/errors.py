"""rule: errors that a model-driven face itself raises; each service's table gives the codes."""

from __future__ import annotations

from dataclasses import dataclass


class AwsError(Exception):
    """A condition of a request to a model-driven face. `str()` is one sentence for the user."""


class UnknownOperation(AwsError):
    """No operation of the service has this method and path."""


class MissingAction(AwsError):
    """A form of the Query protocol does not name its operation."""


class OperationNotImplemented(AwsError):
    """The operation exists in AWS's model but has no row here."""


class MalformedDocument(AwsError):
    """The body is not a document of the protocol."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One violated constraint. path: in AWS's spelling; value: as shown, None for null."""

    path: str
    value: str | None
    constraint: str


class ValidationFailed(AwsError):
    """Members violate constraints of the model; the message is AWS's own."""

    def __init__(self, faults: tuple[Violation, ...]) -> None:
        noun = "error" if len(faults) == 1 else "errors"
        listed = "; ".join(map(_describe, faults))
        super().__init__(f"{len(faults)} validation {noun} detected: {listed}")
        self.faults = faults


def _describe(fault: Violation) -> str:
    shown = "null" if fault.value is None else f"'{fault.value}'"
    return f"Value {shown} at '{fault.path}' failed to satisfy constraint: {fault.constraint}"
