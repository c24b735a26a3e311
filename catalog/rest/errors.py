"""rule: the facts that the REST face itself raises."""

from __future__ import annotations


class RestError(Exception):
    """A condition of the REST face. `str()` is one sentence for people."""


class NoSuchRoute(RestError):
    """The catalog has nothing at this path, or not for this method."""


class NotImplementedHere(RestError):
    """An operation of the specification that this release does not have."""


class MalformedBody(RestError):
    """A request's body is not the JSON that its operation takes."""


class TokenRefused(RestError):
    """The token endpoint refuses; error is OAuth's word for why."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
