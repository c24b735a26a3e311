"""rule: the errors of the REST face."""

from __future__ import annotations


class RestError(Exception):
    """A condition of the REST face. `str()` is one sentence for the user."""


class NoSuchEndpoint(RestError):
    """The catalog has no such path, or not for this method."""


class EndpointNotImplemented(RestError):
    """An operation of the specification that is not implemented."""


class NoSuchFunction(RestError):
    """The catalog stores no functions."""


class NoSuchPlanId(RestError):
    """No scan plan has this id."""


class NoSuchPlanTask(RestError):
    """The plan task is not one of this server for this table, or its snapshot has expired."""


class SigningRefused(RestError):
    """A request is not signed: it is not about the files of its table alone."""


class MalformedJson(RestError):
    """A request's body is not the JSON of its operation."""


class TokenRefused(RestError):
    """The token endpoint refuses a request; error is OAuth's error code."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
