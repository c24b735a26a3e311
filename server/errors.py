"""rule: the errors of the HTTP kit. Each face has its own table of codes for them."""

from __future__ import annotations


class KitError(Exception):
    """A condition of the HTTP kit. `str()` is one sentence for the user."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class MalformedRequest(KitError):
    """The request line, the query or the headers cannot be parsed; the message says why."""


class RequestTooLarge(KitError):
    """The path, the query or the headers exceed a bound; `limit` says which."""


class BodyTooLarge(KitError):
    """The body is longer than `limit_bytes`."""

    limit_bytes: int


class ClientDisconnected(KitError):
    """The client disconnected before its body, or the response, was complete. Normal traffic."""


class BodyStalled(KitError):
    """The client did not send the rest of its body in time."""


class ServerBusy(KitError):
    """The memory for requests is in use; the client may try again later."""


class MalformedXML(KitError):
    """A body is not acceptable XML: not well-formed, too deep, or with a DOCTYPE."""


class FaceNotServed(KitError):
    """The request names an API that this server does not have; `face` says which."""

    face: str


class NoSuchRoute(KitError):
    """The native API has no such path."""


class MethodNotAllowed(KitError):
    """The native API has the path, but not for this method; `allowed` lists its methods."""

    allowed: tuple[str, ...]
