"""rule: the records of the IAM API's identities: users, roles, managed policies and OpenID Connect
providers.

A user's row has everything that belongs to the user, so every change is a change of one row. Names
are unique without regard to case. A policy is attached by its reference: `NAME` of a stored one,
`aws:NAME` of one of the server's own (`server.access.canned`).
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from storage import errors as storage_errors

FORMAT: Final = b"\x01"
USER: Final = b"u"
ROLE: Final = b"r"
POLICY: Final = b"p"
PROVIDER: Final = b"o"
ACCESS_KEY: Final = b"k"
KEY_USE: Final = b"l"
TOKEN: Final = b"t"
ATTACHMENT: Final = b"a"
COUNTS: Final = b"n"
"""The first byte of a key says what the row is."""
OWN_PREFIX: Final = "aws:"


class KeyRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One access key of a user. sealed: its secret, encrypted."""

    access_key: str
    sealed: bytes
    active: bool
    created_at_ms: int


class KeyUseRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The latest use of an access key."""

    used_at_ms: int
    service: str
    region: str


class TokenRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One programmatic access token of a user. digest: of its text, which is not stored.

    name: in upper case. role: the only one that its sessions may be in, in upper case; "" for any.
    days: its lifetime, which a rotation gives to its successor. created_by: a user's name.
    rotated_to: the name of its successor; "" for none.
    """

    token_id: str
    name: str
    digest: bytes
    role: str
    comment: str
    created_at_ms: int
    created_by: str
    days: int
    expires_at_ms: int
    disabled: bool = False
    rotated_to: str = ""


class UserRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A user. inline: policy documents by name. attached: references of managed policies.

    password: an argon2id hash, for SQL logins; "" for none. public_keys: PEM texts, for them too.
    disabled: no credential of the user works. properties: what SQL stores of the user beside that.
    tokens: programmatic access tokens, for SQL logins too.
    """

    name: str
    user_id: str
    path: str
    created_at_ms: int
    tags: dict[str, str]
    inline: dict[str, str]
    attached: tuple[str, ...]
    keys: tuple[KeyRow, ...]
    password: str = ""
    public_keys: tuple[str, ...] = ()
    disabled: bool = False
    properties: dict[str, str] = {}
    tokens: tuple[TokenRow, ...] = ()


class RoleRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A role. trust: the policy that says which principals may assume it."""

    name: str
    role_id: str
    path: str
    created_at_ms: int
    tags: dict[str, str]
    inline: dict[str, str]
    attached: tuple[str, ...]
    trust: str
    description: str
    max_session_seconds: int


class VersionRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One version of a managed policy."""

    number: int
    document: str
    created_at_ms: int


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A managed policy. default: the number of the version in force. last: the highest ever."""

    name: str
    policy_id: str
    path: str
    created_at_ms: int
    updated_at_ms: int
    tags: dict[str, str]
    description: str
    default: int
    last: int
    versions: tuple[VersionRow, ...]

    def version(self, number: int) -> VersionRow | None:
        """Return the version with a number, or None."""
        return next((each for each in self.versions if each.number == number), None)

    @property
    def document(self) -> str:
        """The document in force."""
        version = self.version(self.default)
        assert version is not None, "a policy has its default version"
        return version.document


class ProviderRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An OpenID Connect provider. thumbprints: SHA-1 digests of certificates, in hexadecimal."""

    url: str
    created_at_ms: int
    tags: dict[str, str]
    client_ids: tuple[str, ...]
    thumbprints: tuple[str, ...]

    @property
    def name(self) -> str:
        """The URL without its scheme, as ARNs and condition keys have it."""
        return self.url.partition("://")[2]


class CountsRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How many identities there are."""

    users: int = 0
    roles: int = 0
    policies: int = 0
    providers: int = 0


Row = TypeVar("Row", UserRow, RoleRow, PolicyRow, ProviderRow, CountsRow, KeyUseRow)


def key_of(row_type: bytes, name: str) -> bytes:
    """Return the key of a user, role or policy."""
    return row_type + name.lower().encode()


def provider_key(name: str) -> bytes:
    """Return the key of an OpenID Connect provider; its name has case."""
    return PROVIDER + name.encode()


def access_key_key(access_key: str) -> bytes:
    """Return the key of the row that says whose an access key is."""
    return ACCESS_KEY + access_key.encode()


def token_key(token_id: str) -> bytes:
    """Return the key of the row that says whose a programmatic access token is."""
    return TOKEN + token_id.encode()


def key_use_key(access_key: str) -> bytes:
    """Return the key of the row that says when an access key was last used."""
    return KEY_USE + access_key.encode()


def attachments_of(reference: str) -> bytes:
    """Return what the keys of a policy's attachments begin with."""
    return ATTACHMENT + reference.lower().encode() + b"\x00"


def attachment_key(reference: str, row_type: bytes, name: str) -> bytes:
    """Return the key of the row that says that a policy is attached to a user or role."""
    return attachments_of(reference) + key_of(row_type, name)


def encode(row: UserRow | RoleRow | PolicyRow | ProviderRow | CountsRow | KeyUseRow) -> bytes:
    """Return a row's value."""
    return FORMAT + msgspec.msgpack.encode(row)


def decode(value: bytes, row_type: type[Row]) -> Row:
    """Return the row of a value. Raises CorruptRecord."""
    if value[:1] != FORMAT:
        raise storage_errors.CorruptRecord(f"an identity has the unknown format {value[:1]!r}")
    try:
        return msgspec.msgpack.decode(value[1:], type=row_type)
    except msgspec.MsgspecError as error:
        raise storage_errors.CorruptRecord(f"an identity cannot be read: {error}") from error
