"""engine: authentication for the Snowflake face.

It maps Snowflake's names to the access model: a SQL password is a user's password, or a principal's
secret key. A programmatic access token is one of a user's row, or an access token of the OAuth
endpoint.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from server.access import errors, model, passwords, principals, programmatic, tokens
from sql import errors as sql_errors
from sql import limits
from storage import model as storage_model

DOOR: Final = "snowflake"
"""The name of the face, for uses of access keys."""
ACCEPTED_TYPES: Final[tuple[tokens.TokenType, ...]] = ("access",)


class Authenticator:
    """Authenticates users and tokens.

    open_to_all: every client is root, with any credentials; for `--no-auth`.
    """

    def __init__(
        self,
        *,
        principals: principals.Principals,
        ring: tokens.KeyRing,
        now_ms: storage_model.NowMs,
        open_to_all: bool = False,
    ) -> None:
        self._principals = principals
        self._ring = ring
        self._now_ms = now_ms
        self._hashing = asyncio.Semaphore(limits.PASSWORDS_AT_ONCE)
        self._counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self._open_to_all = open_to_all

    async def check_password(
        self, user: str, password: str, *, client_ip: str = ""
    ) -> model.Principal:
        """Return the principal of a name and password, or of a name or access key and secret key.

        The user's programmatic access tokens are passwords too.
        Raises WrongPassword, and SessionFault if too many logins wait, those of this name or of
        this address among them.
        """
        if self._open_to_all:
            return self._principals.root
        if programmatic.id_of(password):
            with contextlib.suppress(errors.InvalidPAT, errors.ExpiredPAT):
                principal = self._principals.check_programmatic_token(password)
                if principal.name.casefold() == user.casefold():
                    return principal
        try:
            return self._principals.check_password(user, password, door=DOOR)
        except errors.WrongPassword:
            entry = self._principals.by_name(user)
            hashed = "" if entry is None else entry.password_hash
            with self._waiting(user.casefold(), client_ip):
                async with self._hashing:
                    is_right = await asyncio.to_thread(passwords.verify, hashed, password)
            entry = self._principals.by_name(user)  # it may have changed meanwhile
            if not is_right or entry is None or entry.is_disabled or entry.password_hash != hashed:
                raise
            return dataclasses.replace(entry.principal, access_key="")

    @contextlib.contextmanager
    def _waiting(self, user: str, client_ip: str) -> Iterator[None]:
        """Count a login that waits for its password to be hashed; raise if there are too many."""
        bounds = {
            ("", ""): limits.PASSWORDS_WAITING_MAX,
            ("user", user): limits.PASSWORDS_OF_ONE_NAME_MAX,
            ("address", client_ip): limits.PASSWORDS_OF_ONE_ADDRESS_MAX,
        }
        if any(self._counts[owner] >= bound for owner, bound in bounds.items()):
            raise sql_errors.login_refused("Too many logins at once: try again.") from None
        self._counts.update(bounds.keys())
        try:
            yield
        finally:
            self._counts.subtract(bounds.keys())
            self._counts += collections.Counter()  # without those that are zero

    def check_programmatic_token(self, token: str) -> model.Principal:
        """Return the principal of a user's programmatic access token, or of `check_token`.

        Raises InvalidPAT, ExpiredPAT, InvalidJWT or ExpiredJWT.
        """
        if programmatic.id_of(token) and not self._open_to_all:
            return self._principals.check_programmatic_token(token)
        return self.check_token(token)

    def role_restriction(self, principal: model.Principal) -> str:
        """Return the only role that a login's sessions may be in; "" for any.

        Raises SessionFault if the programmatic access token of the login has ended meanwhile.
        """
        try:
            token = self._principals.token_of(principal)
        except errors.InvalidPAT:
            raise sql_errors.login_refused() from None
        return "" if token is None else token.row.role

    def check_token(self, token: str) -> model.Principal:
        """Return the principal of an access token. Raises InvalidJWT or ExpiredJWT."""
        if self._open_to_all:
            return self._principals.root
        claims = tokens.verify(self._ring, token, types=ACCEPTED_TYPES, now_ms=self._now_ms())
        if "role" in claims.extra:
            raise errors.InvalidJWT("a token of a role opens no SQL session")
        entry = self._principals.of_claims(claims)
        if entry is None:
            raise errors.InvalidJWT("the token's principal is gone")
        return entry.principal

    def properties_of(self, principal: model.Principal) -> Mapping[str, str]:
        """Return the user's stored properties, such as `default_role`."""
        return self._principals.properties_of(principal.name)

    def keys_of(self, user: str) -> tuple[str, Sequence[str]]:
        """Return a user's stored name and registered public keys; unknown users have none."""
        entry = self._principals.by_name(user)
        if entry is None or entry.is_disabled:
            return (user, ())
        return entry.principal.name, entry.public_keys

    def principal_of(
        self, name: str, context: model.Context, access_key: str = ""
    ) -> model.Principal | None:
        """Return the current principal with a name, in a connection's context.

        access_key: the key pair or the programmatic access token of the login, if there is one:
        None if it is no longer the user's, or is not valid any more.
        """
        entry = (
            self._principals.by_credential(access_key)
            if access_key
            else self._principals.by_name(name)
        )
        if entry is None or entry.is_disabled:
            return None
        principal = entry.principal
        # A user with a stored key pair may have been renamed; a name is another user's then.
        is_stored = access_key != "" and not self._principals.is_configured(principal.name)
        if not is_stored and principal.name.casefold() != name.casefold():
            return None
        if not access_key and principal.type == "user":
            principal = dataclasses.replace(principal, access_key="")
        return dataclasses.replace(principal, context=context)
