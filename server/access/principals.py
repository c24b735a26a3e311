"""engine: who there is: root, and the users that the configuration names.

A table in memory, built at start; nothing here is stored. Every user's policies are compiled when
they are read, so a wrong one stops the start and names its place. An account has one canonical id,
which its users share unless they say otherwise.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from server import config
from server.access import arns, errors, model, policies, rootkeys

Principal: TypeAlias = model.Principal

ROOT_NAME: Final = "root"


class DuplicatePrincipal(errors.AccessError):
    """Two principals have the same name or the same access key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A principal and the secret that proves it. public_keys: PEM texts, for SQL logins."""

    principal: model.Principal
    access_key: str
    secret_key: str
    public_keys: tuple[str, ...] = ()


class Principals:
    """Principals by access key and by name. Names of users compare without regard to case, because
    SQL drivers send them in capitals."""

    def __init__(
        self, *, account: str, root: rootkeys.RootKeys, users: Iterable[config.User] = ()
    ) -> None:
        self.root = model.Principal(
            kind="root",
            name=ROOT_NAME,
            arn=arns.root_arn(account),
            account_id=account,
            canonical_id=canonical_id_of(account),
            display_name=ROOT_NAME,
        )
        self._by_access_key: dict[str, Known] = {}
        self._by_name: dict[str, Known] = {}
        self._add(
            Known(principal=self.root, access_key=root.access_key, secret_key=root.secret_key)
        )
        for index, user in enumerate(users):
            self._add(_known(user, index, account))

    def by_access_key(self, access_key: str) -> Known:
        """Return who has an access key, and its secret. Raises NoSuchAccessKey."""
        known = self._by_access_key.get(access_key)
        if known is None:
            raise errors.NoSuchAccessKey("no such access key", access_key=access_key)
        return known

    def by_name(self, name: str) -> Known | None:
        """Return the principal of a name, or None."""
        return self._by_name.get(name.casefold())

    def check_password(self, user: str, password: str) -> model.Principal:
        """Return the principal whose name or access key, and whose secret key, these are.

        Raises WrongPassword, which does not tell which of the two was wrong.
        """
        known = self._by_access_key.get(user) or self.by_name(user)
        expected = known.secret_key if known is not None else "no such user"
        same = hmac.compare_digest(expected.encode(), password.encode("utf-8", "surrogatepass"))
        if known is None or not same:
            raise errors.WrongPassword("the user name or the password is wrong")
        return known.principal

    def _add(self, known: Known) -> None:
        name = known.principal.name.casefold()
        if name in self._by_name:
            raise DuplicatePrincipal(f"two principals are named {known.principal.name!r}")
        if known.access_key in self._by_access_key:
            raise DuplicatePrincipal(
                f"the access key of {known.principal.name!r} is another principal's too"
            )
        self._by_name[name] = known
        self._by_access_key[known.access_key] = known


def canonical_id_of(account: str) -> str:
    """Return an account's canonical id: 64 hexadecimal digits, the same at every start."""
    return hashlib.sha256(f"boathouse account {account}".encode()).hexdigest()


def _known(user: config.User, index: int, account: str) -> Known:
    compiled = []
    for number, document in enumerate(user.policies):
        try:
            compiled.append(policies.parse_policy(document, kind="identity"))
        except errors.MalformedPolicy as error:
            path = f"users[{index}].policies[{number}]"
            path = f"{path}.{error.path}" if error.path else path
            raise errors.MalformedPolicy(
                f"the policy of user {user.name!r}: {error}", path=path
            ) from None
    owner = user.account or account
    return Known(
        principal=model.Principal(
            kind="user",
            name=user.name,
            arn=arns.user_arn(owner, user.name),
            account_id=owner,
            canonical_id=user.canonical_id or canonical_id_of(owner),
            display_name=user.display_name or user.name,
            email=user.email,
            policies=tuple(compiled),
        ),
        access_key=user.access_key,
        secret_key=user.secret_key,
        public_keys=user.public_keys,
    )
