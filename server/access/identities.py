"""engine: the users, roles, managed policies and OpenID Connect providers of the IAM API.

A change is planned on the transaction that writes it, so that a check and its write are one. What
requests need is remembered, compiled: after every change, and before it is acknowledged, all of it
is forgotten. Secrets of access keys are encrypted with a key derived from the master key of
keys.json (AES-256-GCM, the access key as associated data).
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hmac
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import aead

from server import limits
from server.access import arns, canned, decide, model, policies, programmatic, rootkeys, tokens
from server.access.identityrows import (
    COUNTS,
    OWN_PREFIX,
    POLICY,
    ROLE,
    USER,
    CountsRow,
    KeyRow,
    PolicyRow,
    ProviderRow,
    RoleRow,
    TokenRow,
    UserRow,
    access_key_key,
    attachments_of,
    decode,
    encode,
    key_of,
    provider_key,
    token_key,
)
from storage import batch, index
from storage import model as storage_model

NONCE_BYTES: Final = 12
ACCESS_KEY_CHARS_MAX: Final = 128
PROVIDER_NAME_CHARS_MAX: Final = 255

TAG_KEYS: Final = ("aws:ResourceTag/", "iam:ResourceTag/")
"""Prefixes of the condition keys of the tags of users, roles, policies and providers."""

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredToken:
    """A programmatic access token. entry: its user, whose access_key is the token's id."""

    row: TokenRow
    entry: model.KeyedPrincipal

    def is_valid(self, *, now_ms: int) -> bool:
        """Return whether it opens sessions, and its sessions go on."""
        is_disabled = self.row.disabled or self.entry.is_disabled
        return not is_disabled and not programmatic.is_expired(self.row, now_ms=now_ms)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredUser:
    """A user as requests need it. entries: one for each active key, or one without a key. tokens:
    by id."""

    row: UserRow
    entries: tuple[model.KeyedPrincipal, ...]
    tokens: Mapping[str, StoredToken]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRole:
    """A role as requests need it. trust: compiled."""

    row: RoleRow
    policies: model.Documents
    trust: model.Document


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredProvider:
    """An OpenID Connect provider. entry: the principal of its tokens, which has no rights but those
    that trust policies give to it."""

    row: ProviderRow
    entry: model.KeyedPrincipal


@dataclass(kw_only=True, slots=True)
class IdentityDraft:
    """The identities within one transaction, and the writes that change them. Mutable."""

    reading: batch.Reading
    writes: list[batch.Write] = field(default_factory=list)

    def user(self, name: str) -> UserRow | None:
        """Return a user's row."""
        value = self.reading.get(batch.Store.IDENTITIES, key_of(USER, name))
        return None if value is None else decode(value, UserRow)

    def role(self, name: str) -> RoleRow | None:
        """Return a role's row."""
        value = self.reading.get(batch.Store.IDENTITIES, key_of(ROLE, name))
        return None if value is None else decode(value, RoleRow)

    def policy(self, name: str) -> PolicyRow | None:
        """Return a managed policy's row."""
        value = self.reading.get(batch.Store.IDENTITIES, key_of(POLICY, name))
        return None if value is None else decode(value, PolicyRow)

    def provider(self, name: str) -> ProviderRow | None:
        """Return the row of an OpenID Connect provider."""
        value = self.reading.get(batch.Store.IDENTITIES, provider_key(name))
        return None if value is None else decode(value, ProviderRow)

    def counts(self) -> CountsRow:
        """Return how many identities there are."""
        value = self.reading.get(batch.Store.IDENTITIES, COUNTS)
        return CountsRow() if value is None else decode(value, CountsRow)

    def holds(self, key: bytes) -> bool:
        """Return whether there is a row."""
        return self.reading.get(batch.Store.IDENTITIES, key) is not None

    def is_attached(self, reference: str) -> bool:
        """Return whether a policy is attached to a user or role."""
        start = attachments_of(reference)
        rows = self.reading.scan(batch.Store.IDENTITIES, start, start[:-1] + b"\x01")
        return next(iter(rows), None) is not None

    def put(self, key: bytes, row: UserRow | RoleRow | PolicyRow | ProviderRow | CountsRow) -> None:
        """Write a row."""
        self.put_value(key, encode(row))

    def put_value(self, key: bytes, value: bytes) -> None:
        """Write a row that is only a name."""
        self.writes.append(batch.Put(store=batch.Store.IDENTITIES, key=key, value=value))

    def delete(self, key: bytes) -> None:
        """Remove a row."""
        self.writes.append(batch.Delete(store=batch.Store.IDENTITIES, key=key))


class Identities:
    """The stored identities. Mutable: it remembers them. account: the server's, which all have."""

    def __init__(
        self,
        *,
        index: index.Index,
        ring: tokens.KeyRing,
        account: str,
        canonical_id: str,
        random_bytes: rootkeys.RandomBytes,
        now_ms: storage_model.NowMs,
    ) -> None:
        self._index = index
        self._cipher = aead.AESGCM(hmac.digest(ring.master, b"access keys", "sha256"))
        self.account = account
        self._canonical_id = canonical_id
        self.random_bytes = random_bytes
        self.now_ms = now_ms
        self._users: dict[str, StoredUser] = {}
        self._names: dict[str, str] = {}
        self._roles: dict[str, StoredRole] = {}
        self._providers: dict[str, StoredProvider] = {}
        self._compiled: dict[tuple[str, policies.PolicyType], policies.CompiledPolicy] = {}
        self._compiled_chars = 0
        self._changes: set[asyncio.Task[object]] = set()

    def view(self) -> index.ReadView:
        """Return a view for listings; the caller closes it."""
        return self._index.view()

    def names(self, row_type: bytes, *, after: str, limit: int) -> list[str]:
        """Return names of users or roles, in lower case and in order. after: of the page before."""
        start = key_of(row_type, after) + (b"\x00" if after else b"")
        stop = bytes([row_type[0] + 1])
        with self._index.view() as view:
            rows = view.scan(batch.Store.IDENTITIES, start, stop)
            return [key[1:].decode() for key, _ in itertools.islice(rows, limit)]

    def user(self, name: str) -> StoredUser | None:
        """Return a user by name, which is compared without case."""
        folded = name.lower()
        stored = self._users.get(folded)
        if stored is None and folded.isascii() and len(folded) <= 64:
            # One view, so that an attached policy exists.
            with self._index.view() as view:
                value = view.get(batch.Store.IDENTITIES, key_of(USER, folded))
                if value is None:
                    return None
                stored = self._build_user(view, decode(value, UserRow))
            if len(self._users) >= limits.IDENTITIES_REMEMBERED_MAX:
                self._users.clear()
            self._users[folded] = stored
        return stored

    def user_within(self, draft: IdentityDraft, name: str) -> StoredUser | None:
        """Return a user as a transaction sees it; nothing is remembered."""
        row = draft.user(name)
        return None if row is None else self._build_user(draft.reading, row)

    def role_within(self, draft: IdentityDraft, name: str) -> StoredRole | None:
        """Return a role as a transaction sees it; nothing is remembered."""
        row = draft.role(name)
        return None if row is None else self._build_role(draft.reading, row)

    def by_access_key(self, access_key: str) -> model.KeyedPrincipal | None:
        """Return the user that has an active access key, and its secret."""
        name = self._names.get(access_key)
        if name is None:
            name = self.owner_of_key(access_key)
            if name is None:
                return None
            if len(self._names) >= limits.IDENTITIES_REMEMBERED_MAX:
                self._names.clear()
            self._names[access_key] = name
        stored = self.user(name)
        entries = () if stored is None else stored.entries
        return next((entry for entry in entries if entry.access_key == access_key), None)

    def owner_of_key(self, access_key: str) -> str | None:
        """Return the user that has an access key, active or not: the name in lower case."""
        if not access_key.isascii() or len(access_key) > ACCESS_KEY_CHARS_MAX:
            return None
        value = self._index.get(batch.Store.IDENTITIES, access_key_key(access_key))
        return None if value is None else value.decode()

    def token(self, token_id: str) -> StoredToken | None:
        """Return a programmatic access token by its id; it may be disabled, or have expired."""
        if not token_id.isascii() or len(token_id) > ACCESS_KEY_CHARS_MAX:
            return None
        value = self._index.get(batch.Store.IDENTITIES, token_key(token_id))
        stored = None if value is None else self.user(value.decode())
        return None if stored is None else stored.tokens.get(token_id)

    def role(self, name: str) -> StoredRole | None:
        """Return a role by name, which is compared without case."""
        folded = name.lower()
        stored = self._roles.get(folded)
        if stored is None and folded.isascii() and len(folded) <= 64:
            with self._index.view() as view:
                value = view.get(batch.Store.IDENTITIES, key_of(ROLE, folded))
                if value is None:
                    return None
                stored = self._build_role(view, decode(value, RoleRow))
            if len(self._roles) >= limits.IDENTITIES_REMEMBERED_MAX:
                self._roles.clear()
            self._roles[folded] = stored
        return stored

    def provider(self, name: str) -> StoredProvider | None:
        """Return an OpenID Connect provider by its name."""
        stored = self._providers.get(name)
        if stored is None and name.isascii() and len(name) <= PROVIDER_NAME_CHARS_MAX:
            value = self._index.get(batch.Store.IDENTITIES, provider_key(name))
            if value is None:
                return None
            row = decode(value, ProviderRow)
            principal = model.Principal(
                type="web-identity",
                name=arns.provider_arn(self.account, name),
                arn=arns.provider_arn(self.account, name),
                account_id=self.account,
                canonical_id="",
                display_name=name,
            )
            entry = model.KeyedPrincipal(principal=principal, access_key="", secret_key="")
            stored = self._providers[name] = StoredProvider(row=row, entry=entry)
        return stored

    def by_role_arn(self, arn: str) -> StoredRole | None:
        """Return the role of an ARN."""
        stored = self.role(arn.rpartition("/")[2])
        if stored is None or self.arn_of_role(stored.row) != arn:
            return None
        return stored

    def arn_of_role(self, row: RoleRow) -> str:
        """Return a role's ARN."""
        return arns.role_arn(self.account, row.path, row.name)

    def side_of(self, demand: model.Demand) -> decide.ResourceSide:
        """Return the trust policy of the role that a demand for assuming it names."""
        return self.side_of_role(self.by_role_arn(demand.resource))

    def side_of_role(self, role: StoredRole | None) -> decide.ResourceSide:
        """Return the trust policy and the tags of a role, none for no role."""
        tags = {} if role is None else role.row.tags
        return decide.ResourceSide(
            account=self.account,
            policies=() if role is None else (role.trust,),
            is_trust=True,
            tags=functools.partial(decide.tag_keys, TAG_KEYS, tags),
        )

    def tags_of(self, arn: str) -> policies.Values:
        """Return the condition keys of the tags of a user, a role, a managed policy or a provider;
        none for an ARN that nothing has."""
        row_type, _, name = arn.split(":", 5)[-1].partition("/")
        row: UserRow | RoleRow | PolicyRow | ProviderRow | None = None
        if row_type == "user":
            user = self.user(name.rpartition("/")[2])
            row = None if user is None else user.row
        elif row_type == "role":
            role = self.by_role_arn(arn)
            row = None if role is None else role.row
        elif row_type == "policy":
            row = self.policy(name.rpartition("/")[2])
        elif row_type == "oidc-provider":
            provider = self.provider(name)
            row = None if provider is None else provider.row
        if row is None:
            return {}
        return decide.tag_keys(TAG_KEYS, row.tags)

    def build_session(self, role: StoredRole, claims: Mapping[str, Any]) -> model.Principal:
        """Return the principal of a role's session.

        claims: those of `session_claims`, and `tag` for session tags.
        """
        row = role.row
        bounds: tuple[policies.CompiledPolicy, ...] | None = None
        if "pol" in claims or "pls" in claims:
            texts = [claims["pol"]] if "pol" in claims else []
            with self._index.view() as view:
                documents = [_document_of(view, reference) for reference in claims.get("pls", ())]
            # A policy that was deleted since allows nothing.
            texts += [document for document in documents if document is not None]
            bounds = tuple([self.compile(text, policy_type="identity") for text in texts])
        name = f"{row.name}/{claims['ses']}"
        return model.Principal(
            type="assumed-role",
            name=name,
            arn=arns.session_arn(self.account, row.name, claims["ses"]),
            account_id=self.account,
            canonical_id=self._canonical_id,
            display_name=name,
            policies=role.policies,
            principal_id=f"{row.role_id}:{claims['ses']}",
            tags=_session_tags(row.tags, claims.get("tag", {})),
            access_key=claims.get("key", ""),
            session_policies=bounds,
            role_arn=self.arn_of_role(row),
        )

    def policy(self, name: str) -> PolicyRow | None:
        """Return a managed policy's row."""
        value = self._index.get(batch.Store.IDENTITIES, key_of(POLICY, name))
        return None if value is None else decode(value, PolicyRow)

    def reference_of(self, arn: str) -> str | None:
        """Return the reference of a managed policy's ARN; None for any other text.

        A stored policy's path is not compared here."""
        own_prefix = arns.policy_arn("aws", "/", "")
        if arn.startswith(own_prefix):
            return OWN_PREFIX + arn.removeprefix(own_prefix)
        prefix = arns.policy_arn(self.account, "/", "")
        return arn.rpartition("/")[2] or None if arn.startswith(prefix) else None

    def has_policy(self, arn: str) -> bool:
        """Return whether a managed policy has an ARN."""
        reference = self.reference_of(arn)
        if reference is None or not reference.isascii() or len(reference) > 128 + len(OWN_PREFIX):
            return False
        with self._index.view() as view:
            exists = _document_of(view, reference) is not None
        return exists and self.arn_of(reference) == arn

    def arn_of(self, reference: str) -> str:
        """Return the ARN of a managed policy that exists."""
        if reference.startswith(OWN_PREFIX):
            return arns.policy_arn("aws", "/", reference.removeprefix(OWN_PREFIX))
        row = self.policy(reference)
        if row is None:  # deleted since
            return arns.policy_arn(self.account, "/", reference)
        return arns.policy_arn(self.account, row.path, row.name)

    def compile(self, text: str, *, policy_type: policies.PolicyType) -> policies.CompiledPolicy:
        """Return the policy of a document; the same text is compiled once."""
        compiled = self._compiled.get((text, policy_type))
        if compiled is None:
            compiled = policies.parse_policy(text, policy_type=policy_type, is_stored=True)
            self._compiled_chars += len(text)
            if self._compiled_chars > limits.COMPILED_CHARS_MAX:
                self._compiled.clear()
                self._compiled_chars = len(text)
            self._compiled[text, policy_type] = compiled
        return compiled

    async def change(
        self,
        plan: Callable[[IdentityDraft], Result],
        *,
        makes_room: bool = False,
        also: batch.Batch | None = None,
    ) -> Result:
        """Run a plan inside a transaction, and return its result once its writes are durable.

        plan: short, and may be run more than once; its errors are raised, and nothing is written.
        also: committed with the change.
        A change goes on when the task that waits for it is cancelled.
        """

        def decision(reading: batch.Reading) -> batch.Decided[Result]:
            draft = IdentityDraft(reading=reading)
            result = plan(draft)
            changes = batch.Batch(writes=tuple(draft.writes))
            return batch.Decided(
                result=result, batch=changes if also is None else batch.merge((changes, also))
            )

        async def commit() -> Result:
            try:
                return await self._index.decide(decision, makes_room=makes_room)
            finally:
                self._users.clear()
                self._names.clear()
                self._roles.clear()
                self._providers.clear()

        task: asyncio.Task[Result] = asyncio.create_task(commit())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    def seal(self, access_key: str, secret_key: str) -> bytes:
        """Return a secret, encrypted."""
        nonce = self.random_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret_key.encode(), access_key.encode())

    def _unseal(self, key: KeyRow) -> str | None:
        """Return a key's secret; None if it was encrypted under another master key."""
        try:
            secret = self._cipher.decrypt(
                key.sealed[:NONCE_BYTES], key.sealed[NONCE_BYTES:], key.access_key.encode()
            )
        except InvalidTag:
            return None
        return secret.decode()

    def _build_user(self, view: batch.Lookup, row: UserRow) -> StoredUser:
        principal = model.Principal(
            type="user",
            name=row.name,
            arn=arns.user_arn(self.account, row.name, row.path),
            account_id=self.account,
            canonical_id=self._canonical_id,
            display_name=row.name,
            policies=self._policies_of(view, row),
            principal_id=row.user_id,
            tags=row.tags,
        )
        secrets = {
            key.access_key: self._unseal(key) for key in row.keys if key.active and not row.disabled
        }
        entries = [
            model.KeyedPrincipal(
                principal=dataclasses.replace(principal, access_key=access_key),
                access_key=access_key,
                secret_key=secret,
                public_keys=tuple(filter(None, row.public_keys)),
                password_hash=row.password,
            )
            for access_key, secret in secrets.items()
            if secret is not None
        ]
        keyless = model.KeyedPrincipal(
            principal=principal,
            access_key="",
            secret_key="",
            public_keys=tuple(filter(None, row.public_keys)),
            password_hash=row.password,
            is_disabled=row.disabled,
        )
        by_token = {
            token.token_id: StoredToken(
                row=token,
                entry=dataclasses.replace(
                    keyless,
                    principal=dataclasses.replace(principal, access_key=token.token_id),
                ),
            )
            for token in row.tokens
        }
        return StoredUser(row=row, entries=tuple(entries) or (keyless,), tokens=by_token)

    def _build_role(self, view: batch.Lookup, row: RoleRow) -> StoredRole:
        return StoredRole(
            row=row,
            policies=self._policies_of(view, row),
            trust=self.compile(row.trust, policy_type="trust"),
        )

    def _policies_of(
        self, view: batch.Lookup, row: UserRow | RoleRow
    ) -> tuple[policies.CompiledPolicy, ...]:
        documents = [*row.inline.values()]
        for reference in row.attached:
            document = _document_of(view, reference)
            assert document is not None, "an attached policy exists"
            documents.append(document)
        return tuple([self.compile(text, policy_type="identity") for text in documents])


def _session_tags(of_role: Mapping[str, str], of_session: Mapping[str, str]) -> Mapping[str, str]:
    """Return the tags of a role's session; keys have no case."""
    if not of_session:
        return of_role
    replaced = {key.lower() for key in of_session}
    kept = {key: value for key, value in of_role.items() if key.lower() not in replaced}
    return {**kept, **of_session}


def session_claims(
    role: StoredRole,
    session_name: str,
    *,
    policy: str | None = None,
    references: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a token of a role's session contains. references: of managed policies, which
    bound the session together with policy."""
    claims: dict[str, Any] = {
        "role": role.row.name,
        "rid": role.row.role_id,
        "ses": session_name,
    }
    if policy is not None:
        claims["pol"] = policy
    if references:
        claims["pls"] = list(references)
    return claims


def _document_of(view: batch.Lookup, reference: str) -> str | None:
    """Return the document of a managed policy; None if there is no such policy."""
    if reference.startswith(OWN_PREFIX):
        own = canned.CANNED.get(reference.removeprefix(OWN_PREFIX))
        return None if own is None else own.document
    value = view.get(batch.Store.IDENTITIES, key_of(POLICY, reference))
    return None if value is None else decode(value, PolicyRow).document
