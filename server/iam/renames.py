"""engine: policies that name a user as a principal, when the user gets another ARN.

As on AWS, the policies of buckets, table buckets and tables and the trust policies of roles follow
a user that is renamed, in the transaction that renames it. What a policy says about the user as a
resource or in a condition stays. A policy that is put while the transaction waits, and names the
old ARN, names the user who has that ARN then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from server.access import identityrows as rows
from storage import batch, records, settings

ELEMENTS: Final = ("Principal", "NotPrincipal")
SURROGATE: Final = re.compile("[\ud800-\udfff]")

Key: TypeAlias = tuple[batch.Store, bytes]
"""The store and the key of a row with a policy."""


def find_policies(reading: batch.Reading, arn: str) -> list[Key]:
    """Return the rows whose policies name an ARN as a principal. Reads all policies: not for the
    event loop."""
    return [key for key, text in _policies(reading) if rename_principal(text, arn, "") is not None]


def plan_renames(
    reading: batch.Reading, keys: Sequence[Key], before: str, after: str
) -> list[batch.Write]:
    """Return the writes after which policies name a principal by its new ARN.

    keys: as of `find_policies`; a row that is gone, or names the ARN no more, is left as it is. The
    new name may make a policy longer than one that is put may be.
    """
    reading.weigh(len(keys))
    writes: list[batch.Write] = []
    changed_buckets: dict[bytes, dict[str, Any]] = {}
    for store, key in keys:
        value = reading.get(store, key)
        text = None if value is None else _policy_of(store, value)
        renamed = None if text is None else rename_principal(text, before, after)
        if value is None or renamed is None:
            continue
        match store:
            case batch.Store.IDENTITIES:
                role = msgspec.structs.replace(rows.decode(value, rows.RoleRow), trust=renamed)
                writes.append(batch.Put(store=store, key=key, value=rows.encode(role)))
            case batch.Store.BUCKETS:
                writes.append(batch.Put(store=store, key=key, value=_in_bucket(value, renamed)))
            case _:
                own = settings.bucket_key_of(key)
                of_bucket = changed_buckets.setdefault(own, dict(settings.read(reading, own)))
                if key == own:
                    of_bucket[settings.POLICY] = renamed
                else:
                    table = {**settings.read(reading, key), settings.POLICY: renamed}
                    writes.append(settings.put(key, table))
    for own, of_bucket in changed_buckets.items():
        writes.append(settings.put(own, settings.count_change(of_bucket)))
    return writes


def rename_principal(text: str, before: str, after: str) -> str | None:
    """Return a policy that names a principal by its new ARN; None if it does not name it."""
    if before not in text and "\\" not in text:  # JSON may escape any character
        return None
    document = json.loads(text)
    statements = document["Statement"]
    is_changed = False
    for statement in statements if isinstance(statements, list) else [statements]:
        for element in ELEMENTS:
            principal = statement.get(element)
            if not isinstance(principal, dict):
                continue
            names = principal.get("AWS")
            if names == before:
                principal["AWS"] = after
            elif isinstance(names, list) and before in names:
                principal["AWS"] = [after if name == before else name for name in names]
            else:
                continue
            is_changed = True
    if not is_changed:
        return None
    # No longer than it was, but for the names: what a client put may have no spaces.
    renamed = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if SURROGATE.search(renamed):  # half of a pair, which JSON can say and UTF-8 cannot
        return json.dumps(document, separators=(",", ":"))
    return renamed


def _policies(reading: batch.Reading) -> Iterator[tuple[Key, str]]:
    """Yield all policies that have principals."""
    stop = bytes([rows.ROLE[0] + 1])
    for store, start, end in (
        (batch.Store.IDENTITIES, rows.ROLE, stop),
        (batch.Store.BUCKETS, b"", None),
        (batch.Store.SETTINGS, b"", None),
    ):
        for key, value in reading.scan(store, start, end):
            text = _policy_of(store, value)
            if text is not None:
                yield (store, key), text


def _policy_of(store: batch.Store, value: bytes) -> str | None:
    if store is batch.Store.IDENTITIES:
        return rows.decode(value, rows.RoleRow).trust
    if settings.POLICY.encode() not in value:
        return None
    if store is batch.Store.BUCKETS:
        bucket_settings: Any = records.decode_bucket(value).settings
    else:
        bucket_settings = records.decode_settings(value).settings
    policy: str | None = bucket_settings.get(settings.POLICY)
    return policy


def _in_bucket(value: bytes, policy: str) -> bytes:
    """Return the record of a general bucket with another policy."""
    record = records.decode_bucket(value)
    changed = msgspec.structs.replace(record, settings={**record.settings, settings.POLICY: policy})
    return records.encode_bucket(
        changed,
        records.versioning(value),
        object_lock=records.has_object_lock(value),
        acls=records.has_acls(value),
    )
