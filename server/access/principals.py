"""engine: the principals: root, and the users of the configuration.

A table in memory, built at start; nothing is stored. Every user's policies are compiled then, so an
invalid one stops the start and names its place. An account has one canonical id, which its users
share unless their entries have another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from server import config
from server.access import arns, errors, model, policies, rootkeys, tokens

ROOT_NAME: Final = "root"


class DuplicatePrincipal(errors.AccessError):
    """Two principals have the same name or the same access key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedPrincipal:
    """A principal with the secret that authenticates it. public_keys: PEM texts, for SQL logins."""

    principal: model.Principal
    access_key: str
    secret_key: str
    public_keys: tuple[str, ...] = ()


class Principals:
    """Principals by access key and by name. User names are case-insensitive, because SQL drivers
    send them in capitals."""

    def __init__(
        self, *, account: str, root: rootkeys.RootKeys, users: Iterable[config.User] = ()
    ) -> None:
        self.root = model.Principal(
            type="root",
            name=ROOT_NAME,
            arn=arns.root_arn(account),
            account_id=account,
            canonical_id=canonical_id_of(account),
            display_name=ROOT_NAME,
            principal_id=account,
            access_key=root.access_key,
        )
        self._by_access_key: dict[str, KeyedPrincipal] = {}
        self._by_name: dict[str, KeyedPrincipal] = {}
        self._add(
            KeyedPrincipal(
                principal=self.root, access_key=root.access_key, secret_key=root.secret_key
            )
        )
        for index, user in enumerate(users):
            self._add(_keyed(user, index, account))
        self._by_canonical_id: dict[str, model.Principal] = {}
        self._by_account: dict[str, model.Principal] = {}
        for entry in self._by_access_key.values():
            principal = entry.principal
            self._by_canonical_id.setdefault(principal.canonical_id, principal)
            self._by_account.setdefault(principal.account_id, principal)

    def by_access_key(self, access_key: str) -> KeyedPrincipal:
        """Return the principal with an access key, and its secret. Raises NoSuchAccessKey."""
        entry = self._by_access_key.get(access_key)
        if entry is None:
            raise errors.NoSuchAccessKey("no such access key", access_key=access_key)
        return entry

    def by_name(self, name: str) -> KeyedPrincipal | None:
        """Return the principal with a name, or None."""
        return self._by_name.get(name.casefold())

    def by_canonical_id(self, canonical_id: str) -> model.Principal | None:
        """Return the first principal with a canonical id, or None."""
        return self._by_canonical_id.get(canonical_id)

    def by_email(self, email: str) -> list[model.Principal]:
        """Return the principals with an email address, which is compared without case."""
        wanted = email.casefold()
        return [
            entry.principal
            for entry in self._by_access_key.values()
            if entry.principal.email is not None and entry.principal.email.casefold() == wanted
        ]

    def of_account(self, account: str) -> model.Principal | None:
        """Return the principal that stands for an account as an owner: root, or its first user."""
        return self._by_account.get(account)

    def holds(self, entry: KeyedPrincipal) -> bool:
        """Return whether an entry that was returned before is still the principal's own."""
        return self._by_access_key.get(entry.access_key) is entry

    def of_claims(self, claims: tokens.Claims) -> KeyedPrincipal | None:
        """Return the entry of the principal that a token was issued to; None if the principal is
        gone, or the key pair that the token comes from."""
        access_key = claims.extra.get("key")
        if access_key is None:
            entry = self.by_name(claims.subject)
        else:
            entry = self._by_access_key.get(access_key)
        if entry is None or entry.principal.name != claims.subject:
            return None
        return entry

    def check_password(self, user: str, password: str) -> model.Principal:
        """Return the principal with this name or access key and this secret key.

        Raises WrongPassword, which does not distinguish a wrong name from a wrong password.
        """
        entry = self._by_access_key.get(user) or self.by_name(user)
        expected = entry.secret_key if entry is not None else "no such user"
        same = hmac.compare_digest(expected.encode(), password.encode("utf-8", "surrogatepass"))
        if entry is None or not same:
            raise errors.WrongPassword("the user name or the password is wrong")
        return entry.principal

    def _add(self, entry: KeyedPrincipal) -> None:
        name = entry.principal.name.casefold()
        if name in self._by_name:
            raise DuplicatePrincipal(f"two principals are named {entry.principal.name!r}")
        if entry.access_key in self._by_access_key:
            raise DuplicatePrincipal(
                f"the access key of {entry.principal.name!r} also belongs to another principal"
            )
        self._by_name[name] = entry
        self._by_access_key[entry.access_key] = entry


def canonical_id_of(account: str) -> str:
    """Return an account's canonical id: 64 hexadecimal digits, the same at every start."""
    return hashlib.sha256(f"boathouse account {account}".encode()).hexdigest()


def principal_id_of(prefix: str, text: str) -> str:
    """Return an identity's unique id, in AWS's form, from a text that is unique among them."""
    digits = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()
    return prefix + digits[:17]


def claims_of(principal: model.Principal) -> dict[str, Any]:
    """Return what a token for a principal contains beside its name: `Principals.of_claims`."""
    if principal.session is not None:
        return dict(principal.session.claims)
    return {"key": principal.access_key} if principal.access_key else {}


def subject_of(principal: model.Principal) -> str:
    """Return the name that a token for a principal has as its subject."""
    return principal.name if principal.session is None else principal.session.subject


def _keyed(user: config.User, index: int, account: str) -> KeyedPrincipal:
    compiled = []
    for number, document in enumerate(user.policies):
        try:
            compiled.append(policies.parse_policy(document, policy_type="identity"))
        except errors.MalformedPolicy as error:
            path = f"users[{index}].policies[{number}]"
            path = f"{path}.{error.path}" if error.path else path
            raise errors.MalformedPolicy(
                f"the policy of user {user.name!r}: {error}", path=path
            ) from None
    owner = user.account or account
    return KeyedPrincipal(
        principal=model.Principal(
            type="user",
            name=user.name,
            arn=arns.user_arn(owner, user.name),
            account_id=owner,
            canonical_id=user.canonical_id or canonical_id_of(owner),
            display_name=user.display_name or user.name,
            email=user.email,
            policies=tuple(compiled),
            principal_id=principal_id_of("AIDA", f"{owner}/{user.name}"),
            access_key=user.access_key,
        ),
        access_key=user.access_key,
        secret_key=user.secret_key,
        public_keys=user.public_keys,
    )
