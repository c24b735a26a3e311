"""rule: the errors of the IAM API, without statuses."""

from __future__ import annotations


class IamError(Exception):
    """A condition of a request to IAM. `str()` is one sentence for the user."""


class NoSuchEntity(IamError):
    """There is no such user, role, policy or access key."""


class EntityAlreadyExists(IamError):
    """There is a user, role or policy of that name."""


class DeleteConflict(IamError):
    """An identity that still has something cannot be deleted."""


class LimitExceeded(IamError):
    """A quota would be exceeded."""


class UnmodifiableEntity(IamError):
    """A user of mini.toml, root, or one of the server's own policies would be changed."""


class ConcurrentModification(IamError):
    """An identity was changed while the request was served."""


class InvalidMember(IamError):
    """A member's value is valid in the model and not for this request."""


class InvalidInput(IamError):
    """A member names something that the request cannot be about."""


class OptionNotOffered(IamError):
    """A member asks for something that this server does not have."""
