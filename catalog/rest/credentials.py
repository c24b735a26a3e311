"""engine: vended credentials: where S3 is, and keys for one table's files.

The keys are derived, short-lived, and only valid inside the table's location; the rights of their
principal bound them too. They are the same for a quarter of an hour, so a response that contains
them can have an entity tag, which changes with the keys, long before the old ones expire. A caller
without the right to read the table gets no settings at all, not even an address: a client would use
it instead of its own settings.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog import access, idents, properties, records, rights
from server.access import decide, model, principals, tokens
from server.auth import callers
from storage import model as storage_model

LIFETIME_SECONDS: Final = 60 * 60
WINDOW_MS: Final = 15 * 60 * 1000
KEPT_MAX: Final = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGrant:
    """A caller's rights on a table's files. window: the quarter of an hour that it is for."""

    location: str
    writable: bool
    window: int

    @property
    def mode(self) -> str:
        """Text that identifies the grant in an entity tag."""
        return f"{'rw' if self.writable else 'r'}:{self.window}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Vended:
    """Settings for a table's `config`, and its one entry of `storage-credentials`."""

    config: Mapping[str, str]
    credential: Mapping[str, Any]


class CredentialVending:
    """Vends keys. ring: signs their tokens. region: for clients' signatures."""

    def __init__(
        self,
        *,
        ring: tokens.KeyRing,
        access: access.Access,
        region: str,
        now_ms: storage_model.NowMs,
        new_id: storage_model.NewId,
    ) -> None:
        self._ring = ring
        self._access = access
        self._region = region
        self._now_ms = now_ms
        self._new_id = new_id
        self._kept: OrderedDict[tuple[str, str, str, bool, int], tokens.VendedKeys] = OrderedDict()

    def grant(
        self, caller: callers.Caller, ident: idents.TableIdent, pointer: records.Pointer
    ) -> FileGrant | None:
        """Return the caller's rights on a table's files, None if there are none.

        The files of a mounted table are not this server's, which has no keys for them.
        """
        if self._access.store.is_mount(ident.table_bucket):
            return None
        writes = True
        if not decide.is_unbound(caller.principal):
            demands = self._access.on_object(ident, pointer.object_uuid, rights.FILE_ACTIONS)
            reads, writes = [self._access.permits(caller.principal, (each,)) for each in demands]
            if not reads:
                return None
        return FileGrant(
            location=properties.plain_uri(pointer.location),
            writable=writes,
            window=self._now_ms() // WINDOW_MS,
        )

    def vend(
        self, caller: callers.Caller, grant: FileGrant, *, origin: str, refresh_path: str
    ) -> Vended:
        """Return keys for a grant, with the client's other settings.

        origin: the server's address as the client used it. refresh_path: of new keys.
        """
        keys = self.keys(caller.principal, grant.location, writable=grant.writable)
        config = {
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            "s3.session-token": keys.session_token,
            "s3.session-token-expires-at-ms": str(keys.expires_at_ms),
            "client.refresh-credentials-endpoint": refresh_path,
            **addresses(origin, self._region),
        }
        return Vended(config=config, credential={"prefix": grant.location + "/", "config": config})

    def keys(
        self, principal: model.Principal, location: str, *, writable: bool
    ) -> tokens.VendedKeys:
        """Return keys of a principal for the files below a location: the same ones for a while."""
        now_ms = self._now_ms()
        session = principal.session
        identity = (
            principal.access_key,
            "" if session is None else session.token_id,
            location,
            writable,
            now_ms // WINDOW_MS,
        )
        kept = self._kept.get(identity)
        if kept is not None:
            self._kept.move_to_end(identity)
            return kept
        lifetime_seconds = LIFETIME_SECONDS
        if session is not None:
            lifetime_seconds = min(lifetime_seconds, (session.expires_at_ms - now_ms) // 1000)
        bucket, _, path = location.removeprefix("s3://").partition("/")
        keys = tokens.vend(
            self._ring,
            subject=principals.subject_of(principal),
            token_id=self._new_id(),
            scopes=(model.Scope(bucket=bucket, prefix=path + "/", writable=writable),),
            now_ms=now_ms,
            lifetime_seconds=lifetime_seconds,
            extra=principals.claims_of(principal),
        )
        self._kept[identity] = keys
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return keys


SIGNER: Final[Mapping[str, Any]] = {"properties": {}, "headers": {}}
"""The settings of a signer in the form that replaces `signer.uri` and `signer.endpoint`: properties
and headers for its requests. The catalog knows table and caller from the request itself, so a
signer passes nothing on, and asks at the table's own endpoint."""


def signing(origin: str, region: str, *, endpoint: str) -> dict[str, str]:
    """Return the settings of a client whose requests to S3 the catalog signs, without any keys.

    endpoint: of signRequest for the table, relative to the catalog's URI.
    """
    signer = {"uri": f"{origin}/iceberg", "endpoint": endpoint}
    return {
        "s3.remote-signing-enabled": "true",
        **{f"signer.{name}": text for name, text in signer.items()},
        **{f"s3.signer.{name}": text for name, text in signer.items()},
        # PyIceberg signs with this class, in this one of its file systems alone.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        **addresses(origin, region),
    }


def addresses(origin: str, region: str) -> dict[str, str]:
    """Return the settings of the S3 endpoint, at the address that the client used."""
    return {
        "s3.endpoint": origin,
        "s3.path-style-access": "true",
        "s3.region": region,
        "client.region": region,
    }
