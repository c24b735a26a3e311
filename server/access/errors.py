"""rule: the facts that access control raises."""

from __future__ import annotations


class AccessError(Exception):
    """A condition of access control. `str()` is one sentence for people, without secrets."""

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
    """A policy document breaks the language's rules; `path` says where inside the document."""

    path: str


class MalformedARN(AccessError):
    """A resource name is not an ARN that is known here."""


class NoSuchAccessKey(AccessError):
    """No principal has this access key; `access_key` is what was asked for."""


class WrongPassword(AccessError):
    """The user does not exist, or the password is another one. Which of both is not told."""


class InvalidToken(AccessError):
    """A token is not one of ours, not for this use, or was changed."""


class ExpiredToken(AccessError):
    """A token of ours is past its end."""


class CorruptKeys(AccessError):
    """root.json or keys.json cannot be read; `path` says which."""


class AuditUnavailable(AccessError):
    """The audit log cannot be written, so nothing that must be audited may happen."""
