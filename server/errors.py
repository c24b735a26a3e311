"""rule: the facts that the HTTP kit raises. Each face has its own table of codes for them."""

from __future__ import annotations


class KitError(Exception):
    """A condition of the HTTP kit. `str()` is one sentence for people."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class MalformedRequest(KitError):
    """The request line, the query or the headers cannot be read; the message says what."""


class RequestTooLarge(KitError):
    """The path, the query or the headers are beyond what is taken; `limit` says which bound."""


class BodyTooLarge(KitError):
    """The body is longer than `limit_bytes`."""

    limit_bytes: int


class ClientDisconnected(KitError):
    """The client went away before its body, or our answer, was whole. Normal traffic."""


class BodyStalled(KitError):
    """The client owes more of its body, and is not waited for any longer."""


class ServerBusy(KitError):
    """The memory that requests may take is in use; the client may try again later."""


class MalformedXML(KitError):
    """A body is not the XML that is taken here: not well-formed, too deep, or with a DOCTYPE."""


class FaceNotServed(KitError):
    """The request names an API that this server does not have; `face` says which."""

    face: str


class NoSuchRoute(KitError):
    """The native API has nothing at this path."""


class MethodNotAllowed(KitError):
    """The native API has the path, but not for this method; `allowed` lists those it has."""

    allowed: tuple[str, ...]
