"""engine: what a client needs to reach a table's files: where S3 is, and keys for that one table.

The keys are vended: derived, short-lived, and good for nothing outside the table's location; what
they may do is also bounded by what their principal may do at that moment. They are the same for a
quarter of an hour, so an answer that holds them can carry an entity tag: its tag changes with the
keys, long before the old ones end. Who may not read the table gets nothing at all, not even an
address: a client would put it in place of settings of its own that work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog import access, idents, properties, records, rights
from server import exchange
from server.access import model, tokens
from storage import model as storage_model

LIFETIME_SECONDS: Final = 60 * 60
WINDOW_MS: Final = 15 * 60 * 1000
KEPT_MAX: Final = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What a caller may do with a table's files. window: which quarter of an hour it is for."""

    location: str
    writable: bool
    window: int

    @property
    def mode(self) -> str:
        """Text that tells grants apart in an entity tag."""
        return f"{'rw' if self.writable else 'r'}:{self.window}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Vended:
    """Settings for a table's `config`, and its one entry of `storage-credentials`."""

    config: Mapping[str, str]
    credential: Mapping[str, Any]


class Credentials:
    """Vends keys. ring: signs their tokens. region: what clients sign with."""

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
        self._kept: OrderedDict[tuple[str, str, bool, int], tokens.VendedKeys] = OrderedDict()

    def grant(
        self, caller: exchange.Caller, ident: idents.TableIdent, pointer: records.Pointer
    ) -> Grant | None:
        """Return what the caller may do with a table's files, None for nothing."""
        demands = self._access.on_object(ident, pointer.object_uuid, rights.FILE_ACTIONS)
        reads, writes = (self._access.permits(caller.principal, (each,)) for each in demands)
        if not reads:
            return None
        return Grant(
            location=properties.plain_uri(pointer.location),
            writable=writes,
            window=self._now_ms() // WINDOW_MS,
        )

    def vend(
        self, caller: exchange.Caller, grant: Grant, *, origin: str, refresh_path: str
    ) -> Vended:
        """Return keys for a grant, and everything a client needs besides.

        origin: where the client reached us. refresh_path: where it gets new keys.
        """
        keys = self._keys(caller.principal, grant)
        config = {
            "s3.access-key-id": keys.access_key,
            "s3.secret-access-key": keys.secret_key,
            "s3.session-token": keys.session_token,
            "s3.session-token-expires-at-ms": str(keys.expires_at_ms),
            "client.refresh-credentials-endpoint": refresh_path,
            **addresses(origin, self._region),
        }
        return Vended(config=config, credential={"prefix": grant.location + "/", "config": config})

    def _keys(self, principal: model.Principal, grant: Grant) -> tokens.VendedKeys:
        identity = (principal.name, grant.location, grant.writable, grant.window)
        kept = self._kept.get(identity)
        if kept is not None:
            self._kept.move_to_end(identity)
            return kept
        bucket, _, path = grant.location.removeprefix("s3://").partition("/")
        keys = tokens.vend(
            self._ring,
            subject=principal.name,
            token_id=self._new_id(),
            scopes=(model.Scope(bucket=bucket, prefix=path + "/", writable=grant.writable),),
            now_ms=self._now_ms(),
            lifetime_seconds=LIFETIME_SECONDS,
        )
        self._kept[identity] = keys
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return keys


def addresses(origin: str, region: str) -> dict[str, str]:
    """Return the settings by which clients find our S3, as they reached us."""
    return {
        "s3.endpoint": origin,
        "s3.path-style-access": "true",
        "s3.region": region,
        "client.region": region,
    }
