"""engine: the principals: root, the users of the configuration, and the stored identities.

Root and the configured users are a table in memory, built at start. Their policies are compiled
then, so an invalid one stops the start and names its place. All other users, and the roles, are in
the index (`server.access.identities`); they belong to the server's account. An account has one
canonical id, which its users share unless their entries have another.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from server import config
from server.access import (
    arns,
    canned,
    errors,
    identities,
    keyuses,
    model,
    policies,
    programmatic,
    rootkeys,
    tokens,
)
from server.access.identityrows import ROLE, USER

ROOT_NAME: Final = "root"
ROLE_WORD: Final = "role/"
NAMES_AT_ONCE: Final = 200
"""Names of stored users or roles that one view reads."""
EXPLAINED_SESSION: Final = "explained"
_SESSION_NAME: Final = re.compile(r"[^A-Za-z0-9_+=,.@-]")
"""What a session's name may not contain."""
JOB_CLAIM: Final = "job"
"""The claim of a token of a job: it holds while the job is admitted."""
LOGIN_CLAIM: Final = "login"
"""The claim of a token that ends with a login: see `login_claims`."""


class DuplicatePrincipal(errors.AccessError):
    """Two principals have the same name or the same access key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A principal, with the names of its policies in their order."""

    principal: model.Principal
    policy_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _AdmittedJob:
    """Whose rights the tokens of a job have. is_servant: of `Principals.admit_job`."""

    principal: model.Principal
    is_servant: bool


class Principals:
    """Principals by access key and by name. User names are case-insensitive, because SQL drivers
    send them in capitals."""

    def __init__(
        self,
        *,
        account: str,
        root: rootkeys.RootKeys,
        users: Iterable[config.User] = (),
        stored: identities.Identities | None = None,
        key_uses: keyuses.KeyUses | None = None,
    ) -> None:
        self._stored = stored
        self._key_uses = key_uses
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
        self._by_access_key: dict[str, model.KeyedPrincipal] = {}
        self._by_name: dict[str, model.KeyedPrincipal] = {}
        self._add(
            model.KeyedPrincipal(
                principal=self.root, access_key=root.access_key, secret_key=root.secret_key
            )
        )
        for index, user in enumerate(users):
            self._add(_keyed(user, index, account))
        self._jobs: dict[str, _AdmittedJob] = {}
        self._by_canonical_id: dict[str, model.Principal] = {}
        self._by_account: dict[str, model.Principal] = {}
        for entry in self._by_access_key.values():
            principal = entry.principal
            self._by_canonical_id.setdefault(principal.canonical_id, principal)
            self._by_account.setdefault(principal.account_id, principal)

    def by_access_key(self, access_key: str) -> model.KeyedPrincipal:
        """Return the principal with an access key, and its secret. Raises NoSuchAccessKey."""
        entry = self.find(access_key)
        if entry is None:
            raise errors.NoSuchAccessKey("no such access key", access_key=access_key)
        return entry

    def by_credential(self, credential_id: str) -> model.KeyedPrincipal | None:
        """Return the principal of an access key, or of the id of a programmatic access token; None
        if the credential is not valid now."""
        entry = self.find(credential_id)
        if entry is not None or self._stored is None:
            return entry
        token = self._stored.token(credential_id)
        is_valid = token is not None and token.is_valid(now_ms=self._stored.now_ms())
        return token.entry if token is not None and is_valid else None

    def check_programmatic_token(self, text: str) -> model.Principal:
        """Return the user of a programmatic access token. Raises InvalidPAT, ExpiredPAT."""
        token_id = programmatic.id_of(text)
        token = None if self._stored is None or not token_id else self._stored.token(token_id)
        if self._stored is None or token is None or not programmatic.matches(token.row, text):
            raise errors.InvalidPAT("no programmatic access token has this text")
        if programmatic.is_expired(token.row, now_ms=self._stored.now_ms()):
            raise errors.ExpiredPAT("the programmatic access token has expired")
        if not token.is_valid(now_ms=self._stored.now_ms()):
            raise errors.InvalidPAT("the programmatic access token is disabled")
        return token.entry.principal

    def token_of(self, principal: model.Principal) -> identities.StoredToken | None:
        """Return the programmatic access token that a principal's credential is; None if it is
        another credential.

        Raises InvalidPAT for a token that is removed, disabled or expired: what limits the token
        does not end with it.
        """
        access_key = principal.access_key
        if self._stored is None or not access_key:
            return None
        token = self._stored.token(access_key)
        is_token = token is not None or programmatic.is_id(access_key)
        if not is_token or self.find(access_key) is not None:
            return None
        if token is None or not token.is_valid(now_ms=self._stored.now_ms()):
            raise errors.InvalidPAT("the programmatic access token is not valid any more")
        return token

    def by_name(self, name: str) -> model.KeyedPrincipal | None:
        """Return the principal with a name, or None."""
        entry = self._by_name.get(name.casefold())
        if entry is None and self._stored is not None:
            user = self._stored.user(name)
            return None if user is None else user.entries[0]
        return entry

    def arn_of(self, name: str) -> str:
        """Return the ARN of root, of a user, or of `role/NAME`; they need not exist."""
        if name.startswith(ROLE_WORD):
            role = self.role(name.removeprefix(ROLE_WORD))
            if role is not None:
                return self.role_arn(role)
            return arns.role_arn(self.root.account_id, "/", name.removeprefix(ROLE_WORD))
        entry = self.by_name(name)
        return arns.user_arn(self.root.account_id, name) if entry is None else entry.principal.arn

    def described(self, name: str) -> Described | None:
        """Return root, a user, or the role of `role/NAME`, with the names of its policies."""
        if name.startswith(ROLE_WORD):
            role = self.role(name.removeprefix(ROLE_WORD))
            if role is None or self._stored is None:
                return None
            claims = identities.session_claims(role, EXPLAINED_SESSION)
            return Described(
                principal=self._stored.build_session(role, claims),
                policy_names=(*role.row.inline, *map(self._stored.arn_of, role.row.attached)),
            )
        entry = self.by_name(name)
        if entry is None:
            return None
        count = len(entry.principal.policies)
        names = tuple(f"policies[{number}]" for number in range(count))
        if not self.is_configured(name) and self._stored is not None:
            stored = self._stored.user(name)
            if stored is None:
                return None
            names = (*stored.row.inline, *map(self._stored.arn_of, stored.row.attached))
        return Described(principal=entry.principal, policy_names=names)

    def names(self) -> Iterator[str]:
        """Yield root, the users, and the roles as `role/NAME`, read while the caller iterates."""
        yield from [entry.principal.name for entry in self._by_name.values()]
        if self._stored is None:
            return
        for row_type, prefix in ((USER, ""), (ROLE, ROLE_WORD)):
            after = ""
            while names := self._stored.names(row_type, after=after, limit=NAMES_AT_ONCE):
                yield from [prefix + name for name in names]
                after = names[-1]

    def is_configured(self, name: str) -> bool:
        """Return whether a name is root's or that of a user of the configuration."""
        return name.casefold() in self._by_name

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

    def holds(self, entry: model.KeyedPrincipal) -> bool:
        """Return whether an entry that was returned before is still the principal's own; False for
        an identity provider's, whose sessions have a role and are verified each time."""
        if entry.access_key:
            return self.find(entry.access_key) is entry
        if entry.principal.access_key:
            return self.by_credential(entry.principal.access_key) is entry
        return self.by_name(entry.principal.name) is entry

    def admit_job(self, job_id: str, principal: model.Principal, *, is_servant: bool) -> None:
        """Let tokens with a job's id be accepted until `dismiss_job`, with a principal's rights.

        is_servant: the principal is not one of this table; its rights are those that it has here.
        """
        self._jobs[job_id] = _AdmittedJob(principal=principal, is_servant=is_servant)

    def dismiss_job(self, job_id: str) -> None:
        """Accept no token with a job's id any more."""
        self._jobs.pop(job_id, None)

    def _of_job(self, job_id: str) -> model.KeyedPrincipal | None:
        job = self._jobs.get(job_id)
        if job is None:
            return None
        if job.is_servant:
            return model.KeyedPrincipal(principal=job.principal, access_key="", secret_key="")
        entry = self.by_name(job.principal.name)
        if entry is None or entry.principal.principal_id != job.principal.principal_id:
            return None  # another user has the name now
        if entry.is_disabled:
            return None
        return entry

    def of_claims(self, claims: tokens.Claims) -> model.KeyedPrincipal | None:
        """Return the entry of the principal that a token was issued to; None if the principal is
        gone, the key pair that the token comes from, its job, or its login."""
        if LOGIN_CLAIM in claims.extra and not self._goes_on(claims.extra[LOGIN_CLAIM]):
            return None
        if JOB_CLAIM in claims.extra:
            return self._of_job(claims.extra[JOB_CLAIM])
        if "idp" in claims.extra:
            return self._of_provider(claims.extra)
        access_key = claims.extra.get("key")
        if access_key is None:
            entry = self.by_name(claims.subject)
        else:
            entry = self.by_credential(access_key)
        if entry is None or entry.is_disabled:
            return None
        # A stored key pair stays with its user, who may have been renamed; one of mini.toml may
        # have been given to another user.
        is_stored = access_key is not None and access_key not in self._by_access_key
        return entry if is_stored or entry.principal.name == claims.subject else None

    def _goes_on(self, login: Mapping[str, str]) -> bool:
        """Return whether a login is valid still. login: of `login_claims`."""
        key = login["key"]
        entry = self.by_credential(key) if key else self.by_name(login["name"])
        if entry is None or entry.is_disabled:
            return False
        return entry.principal.principal_id == login["id"]  # another user may have the name now

    def _of_provider(self, claims: Mapping[str, Any]) -> model.KeyedPrincipal | None:
        """Return the entry of the identity provider whose token began a session; None if it is
        gone, or was made anew."""
        provider = None if self._stored is None else self._stored.provider(claims["idp"])
        if provider is None or provider.row.created_at_ms != claims.get("idc"):
            return None
        return provider.entry

    def current(self, principal: model.Principal) -> model.Principal | None:
        """Return a caller as it is now; None if its key pair, its user or its role is gone."""
        session = principal.session
        is_of_login = session is not None and LOGIN_CLAIM in session.claims
        if principal.type in ("root", "anonymous") and not is_of_login:
            return principal
        claims = tokens.Claims(
            typ="sts",
            subject=subject_of(principal),
            token_id="" if session is None else session.token_id,
            issued_at_ms=0 if session is None else session.issued_at_ms,
            expires_at_ms=0 if session is None else session.expires_at_ms,
            extra=claims_of(principal),
        )
        entry = self.of_claims(claims)
        fresh = None if entry is None else entry.principal
        if fresh is not None and "role" in claims.extra:
            fresh = self.assume(claims)
        if fresh is None:
            return None
        return dataclasses.replace(
            fresh, scopes=principal.scopes, session=session, context=principal.context
        )

    def check_password(self, user: str, password: str, *, door: str) -> model.Principal:
        """Return the principal with this name or access key and this secret key.

        door: the name of the face that asks. Raises WrongPassword, which does not distinguish a
        wrong name from a wrong password.
        """
        password_bytes = password.encode("utf-8", "surrogatepass")
        right = [
            entry
            for entry in self._entries_of(user) or (_NO_ENTRY,)
            if hmac.compare_digest(entry.secret_key.encode(), password_bytes)
        ]
        if not right or not right[0].access_key:
            raise errors.WrongPassword("the user name or the password is wrong")
        if self._key_uses is not None:
            self._key_uses.note(right[0].access_key, door)
        return right[0].principal

    def enter_role(self, user: model.Principal, name: str) -> model.Principal | None:
        """Return the session of a user in a role, whose rights alone it has; None without the role.

        The trust policy of the role is for the caller to ask."""
        role = None if self._stored is None else self._stored.role(name)
        return None if role is None else self.enter_stored_role(user, role)

    def enter_stored_role(
        self, user: model.Principal, role: identities.StoredRole
    ) -> model.Principal:
        """Do what `enter_role` does, for a role that was read."""
        assert self._stored is not None, "there are roles"
        claims = {
            **claims_of(user),
            **identities.session_claims(role, _SESSION_NAME.sub("-", user.name)[:64]),
        }
        return dataclasses.replace(self._stored.build_session(role, claims), context=user.context)

    def properties_of(self, name: str) -> Mapping[str, str]:
        """Return what SQL stores of a user; nothing for one of the configuration."""
        if self._stored is None or self.is_configured(name):
            return {}
        stored = self._stored.user(name)
        return {} if stored is None else stored.row.properties

    def role_names(self) -> Iterator[str]:
        """Yield the names of the roles, read while the caller iterates."""
        for name in self.names():
            if name.startswith(ROLE_WORD):
                yield name.removeprefix(ROLE_WORD)

    def role(self, name: str) -> identities.StoredRole | None:
        """Return a role by name."""
        return None if self._stored is None else self._stored.role(name)

    def role_arn(self, role: identities.StoredRole) -> str:
        """Return a role's ARN."""
        return arns.role_arn(self.root.account_id, role.row.path, role.row.name)

    def assume(self, claims: tokens.Claims) -> model.Principal | None:
        """Return the assumed role that a token is for; None if there is no such role any more.

        claims: with those of `role_claims`; `of_claims` checks where the token comes from."""
        role = None if self._stored is None else self._stored.role(claims.extra["role"])
        if role is None or self._stored is None or role.row.role_id != claims.extra["rid"]:
            return None
        return self._stored.build_session(role, claims.extra)

    def _entries_of(self, user: str) -> tuple[model.KeyedPrincipal, ...]:
        """Return the entries that a name or an access key stands for."""
        entry = self.find(user) or self._by_name.get(user.casefold())
        if entry is not None:
            return (entry,)
        stored = None if self._stored is None else self._stored.user(user)
        return () if stored is None else stored.entries

    def find(self, access_key: str) -> model.KeyedPrincipal | None:
        """Return the principal with an access key, and its secret; None if there is none."""
        entry = self._by_access_key.get(access_key)
        if entry is None and self._stored is not None:
            return self._stored.by_access_key(access_key)
        return entry

    def _add(self, entry: model.KeyedPrincipal) -> None:
        name = entry.principal.name.casefold()
        if self.by_name(name) is not None:
            raise DuplicatePrincipal(f"two principals are named {entry.principal.name!r}")
        if self.find(entry.access_key) is not None:
            raise DuplicatePrincipal(
                f"the access key of {entry.principal.name!r} also belongs to another principal"
            )
        self._by_name[name] = entry
        self._by_access_key[entry.access_key] = entry


_NO_ENTRY: Final = model.KeyedPrincipal(
    principal=model.anonymous(), access_key="", secret_key="no such user"
)


def canonical_id_of(account: str) -> str:
    """Return an account's canonical id: 64 hexadecimal digits, the same at every start."""
    return hashlib.sha256(f"boathouse account {account}".encode()).hexdigest()


def in_context(principal: model.Principal, client_ip: str) -> model.Principal:
    """Return a principal with the condition keys of a connection; "" for no address."""
    context = {"aws:SourceIp": client_ip} if client_ip else {}
    return dataclasses.replace(principal, context=context)


def principal_id_of(prefix: str, text: str) -> str:
    """Return an identity's unique id, in AWS's form, from a text that is unique among them."""
    digits = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()
    return prefix + digits[:17]


def claims_of(principal: model.Principal) -> dict[str, Any]:
    """Return what a token for a principal contains beside its name: `Principals.of_claims`."""
    if principal.session is not None:
        return dict(principal.session.claims)
    return {"key": principal.access_key} if principal.access_key else {}


def login_claims(login: model.Principal) -> dict[str, Any]:
    """Return what a token contains that has another's rights and ends with the credential of a
    login: with its key pair, its programmatic access token, or its user."""
    return {
        LOGIN_CLAIM: {"name": login.name, "id": login.principal_id, "key": login.access_key},
    }


def subject_of(principal: model.Principal) -> str:
    """Return the name that a token for a principal has as its subject."""
    return principal.name if principal.session is None else principal.session.subject


def _canned_document(name: str) -> str:
    """Return the document of one of the server's managed policies. Raises MalformedPolicy."""
    policy = canned.CANNED.get(name)
    if policy is None:
        names = ", ".join(sorted(canned.CANNED))
        raise errors.MalformedPolicy(
            f"there is no managed policy {name!r}; there are {names}", path=""
        )
    return policy.document


def _keyed(user: config.User, index: int, account: str) -> model.KeyedPrincipal:
    compiled = []
    for number, document in enumerate(user.policies):
        try:
            if isinstance(document, str):
                document = _canned_document(document)
            compiled.append(policies.parse_policy(document, policy_type="identity"))
        except errors.MalformedPolicy as error:
            path = f"users[{index}].policies[{number}]"
            path = f"{path}.{error.path}" if error.path else path
            raise errors.MalformedPolicy(
                f"the policy of user {user.name!r}: {error}", path=path
            ) from None
    owner = user.account or account
    return model.KeyedPrincipal(
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
