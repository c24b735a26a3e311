"""rule: the values of access control: principal, demand, decision.

A Principal is built for every request: besides the identity it carries the connection's condition
keys (source address, transport), so that a check deep inside the catalog needs only the principal.
`server.access.decide` makes the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from server.access import policies
    from storage import model as storage_model

PrincipalType: TypeAlias = Literal[
    "root", "user", "assumed-role", "service", "web-identity", "anonymous"
]
ContextValue: TypeAlias = str | tuple[str, ...]
Document: TypeAlias = "policies.CompiledPolicy"
Documents: TypeAlias = "tuple[policies.CompiledPolicy, ...]"
Context: TypeAlias = Mapping[str, ContextValue]
"""Condition keys and their values. Names are case-insensitive."""


class LateContext(Mapping[str, ContextValue]):
    """Condition keys that are made when one is first read, once: most policies test none.

    make: returns them.
    """

    __slots__ = ("_context", "_make")

    def __init__(self, make: Callable[[], Context]) -> None:
        self._make = make
        self._context: Context | None = None

    def _read(self) -> Context:
        if self._context is None:
            self._context = self._make()
        return self._context

    def __getitem__(self, key: str) -> ContextValue:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The reach of a vended credential: keys below prefix in bucket, to read or also to write.

    prefix ends in a slash, so that `orders/` does not cover `orders2/`.
    """

    bucket: str
    prefix: str
    writable: bool


SOURCE_CLAIM: Final = "src"
"""The claim of a role's session that has its source identity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialSession:
    """The temporary credentials of a caller.

    subject: the name of the principal whose key pair they come from. claims: what the tokens of
    credentials that are derived from these contain too; such credentials end with these.
    """

    subject: str
    token_id: str
    issued_at_ms: int
    expires_at_ms: int
    claims: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """The caller. canonical_id and display_name are S3's Owner; policies are the identity's own.

    scopes: None for a credential with all of its principal's rights; otherwise every demand must
    also be inside one of them. context: condition keys that hold for the whole request.
    principal_id: the identity's unique id, which a new identity of the same name does not get; the
    name, if it has none. access_key: the long-term one that the caller's credential comes from, or
    the id of a programmatic access token.
    session: None for long-term credentials. session_policies: None for no such bound; otherwise one
    of them must also allow every demand. role_arn: of an assumed role. tags: of the user, or of the
    role that is assumed and of its session.
    """

    type: PrincipalType
    name: str
    arn: str
    account_id: str
    canonical_id: str
    display_name: str
    policies: Documents = ()
    email: str | None = None
    scopes: tuple[Scope, ...] | None = None
    context: Context = field(default_factory=dict)
    principal_id: str = ""
    access_key: str = ""
    session: CredentialSession | None = None
    session_policies: Documents | None = None
    role_arn: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def documents(self) -> Documents:
        """All policies of the caller's side."""
        return (*self.policies, *(self.session_policies or ()))


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedPrincipal:
    """A principal with the secret that authenticates it. public_keys: PEM texts, for SQL logins.

    access_key: empty for a user without an active one. is_disabled: no credential of it works.
    password_hash: of argon2id, for SQL logins; empty for none.
    """

    principal: Principal
    access_key: str
    secret_key: str
    public_keys: tuple[str, ...] = ()
    password_hash: str = ""
    is_disabled: bool = False


class Demand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One permission that is needed: an action on a resource, in a context.

    action: `s3:GetObject`. resource: an ARN, or `*` for actions that have none.
    place: `BUCKET/KEY`, or `BUCKET/PREFIX` for a listing, if the demand is for bytes; scopes of
    vended credentials cover places, and a demand without a place is never in scope.
    shown: the text of a refusal instead of action and resource, if these would reveal whether a
    resource exists: the same for one that exists and one that does not.
    only_reads: the request changes nothing, although its action could.
    maker: the account that owns what the request makes, or the upload that it is about, if that is
    not the bucket's owner; None otherwise. "" stands for an anonymous caller.
    creates: the request creates the bucket, and is judged as if the bucket were absent.
    referenced_by: the views through which the client says it reads, as it names them: for the audit
    log, no decision looks at it.
    object_info: the object that the response is made of, once it has been read; None while the
    decision looks the object up.
    """

    action: str
    resource: str
    place: str = ""
    shown: str = ""
    context: Context = msgspec.field(default_factory=dict)
    only_reads: bool = False
    maker: str | None = None
    creates: bool = False
    referenced_by: str = ""
    object_info: storage_model.ObjectInfo | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision. reason: root, allow, explicit-deny, scope, session-policy or no-allow.
    statements: Sids or numbers of the statements that decided it."""

    allow: bool
    reason: Literal["root", "allow", "explicit-deny", "scope", "session-policy", "no-allow"]
    statements: tuple[str, ...] = ()


def anonymous(*, context: Context | None = None) -> Principal:
    """Return the principal of a request without credentials."""
    return Principal(
        type="anonymous",
        name="anonymous",
        arn="*",
        account_id="",
        canonical_id="",
        display_name="anonymous",
        context=context or {},
    )
