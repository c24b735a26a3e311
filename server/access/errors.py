"""rule: the errors of access control."""

from __future__ import annotations


class AccessError(Exception):
    """A condition of access control. `str()` is one sentence for the user, without secrets."""

    def __init__(self, message: str, /, **fields: object) -> None:
        super().__init__(message)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)


class AccessDenied(AccessError):
    """The principal may not do `action` on `resource`."""

    action: str
    resource: str


class MalformedPolicy(AccessError):
    """A policy document violates the policy grammar; `path` is the place in the document."""

    path: str


class MalformedARN(AccessError):
    """A resource name is not an ARN of a form that is supported here."""


class NoSuchAccessKey(AccessError):
    """No principal has the access key `access_key`."""


class WrongPassword(AccessError):
    """The user does not exist, or the password is wrong; the error does not distinguish them."""


class InvalidJWT(AccessError):
    """A token is not one of this server's, is for another use, or was changed."""


class ExpiredJWT(AccessError):
    """A token of this server has expired."""


class InvalidPAT(AccessError):
    """A programmatic access token does not exist, or it is disabled."""


class ExpiredPAT(AccessError):
    """A programmatic access token has expired."""


class CorruptKeys(AccessError):
    """root.json or keys.json cannot be read; `path` is the file."""


class AuditUnavailable(AccessError):
    """The audit log cannot be written, so operations that must be audited are refused."""
