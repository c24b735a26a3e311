"""rule: the errors of OpenID Connect, without statuses."""

from __future__ import annotations


class OidcError(Exception):
    """A condition of a web identity. `str()` is one sentence for the user, without the token."""


class InvalidIdentityToken(OidcError):
    """The token is not a valid one of a registered provider."""


class ExpiredIdentityToken(OidcError):
    """The token has expired."""


class RejectedClaim(OidcError):
    """The token is for another audience."""


class ProviderUnreachable(OidcError):
    """The provider's keys could not be read."""


class InvalidProviderUrl(OidcError):
    """A provider's URL is not one that this server would fetch."""
