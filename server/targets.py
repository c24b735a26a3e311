"""rule: the target of a request line and the Host header (RFC 9112, section 3.2).

Most targets are a path and stay as they are. An absolute target also names an origin, which
replaces the Host header. CONNECT and `OPTIONS *` name no resource: their path here is `*`.
"""

from __future__ import annotations

import re
from typing import Final

from server import errors

SERVER: Final = b"*"
"""The path of a request to the server as a whole."""

METHODS: Final = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS")

_AUTHORITY: Final = rb"(?:[A-Za-z0-9._~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"
_HOST: Final = re.compile(_AUTHORITY)
_ABSOLUTE: Final = re.compile(
    rb"https?://(" + _AUTHORITY + rb")((?:[/?][\x21-\x7e]*)?)", re.IGNORECASE
)


def parse(method: bytes, target: bytes) -> tuple[bytes | None, bytes]:
    """Return the authority of a target, or None, and its path with its query.

    target: one that does not start with a slash. Raises MalformedRequest.
    """
    if method == b"CONNECT" or target == SERVER:
        return None, SERVER
    match = _ABSOLUTE.fullmatch(target)
    if match is None or not match[1] or match[1].startswith(b":"):
        raise errors.MalformedRequest("the request's target is neither a path nor an http URL")
    authority, rest = match[1], match[2]
    if rest.startswith(b"/"):
        return authority, rest
    if not rest and method == b"OPTIONS":
        return authority, SERVER
    return authority, b"/" + rest


def check_host(host: bytes) -> None:
    """Raise MalformedRequest if the value of a Host header is not one host with or without port."""
    if _HOST.fullmatch(host) is None:
        raise errors.MalformedRequest("the Host header is not one host, with or without a port")
