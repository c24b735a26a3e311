"""rule: what a bucket's settings say of access control lists: whether they count, the bucket's own,
and what the block of public access leaves of public ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storage import model as storage_model
from storage import records

PUBLIC_ACCESS_BLOCK: Final = "public_access_block"
"""The setting with the members of a public access block."""
CONTROLS: Final = records.OWNERSHIP_CONTROLS
ENFORCED: Final = records.OWNER_ENFORCED
PREFERRED: Final = "BucketOwnerPreferred"
WRITER: Final = "ObjectWriter"
"""The setting of a bucket that says who owns new objects in it, and its values. As on AWS, the last
one is that of a bucket without the setting."""
ACL: Final = records.BUCKET_ACL
"""The setting with a bucket's access control list: pairs of grantee and permission. A bucket
without it is granted to its owner alone."""


def controls_of(settings: Mapping[str, Any]) -> str:
    """Return the value of a bucket's ownership controls that holds for these settings."""
    return str(settings.get(CONTROLS, WRITER))


def takes_acls(settings: Mapping[str, Any]) -> bool:
    """Return whether access control lists count in a bucket of these settings."""
    return controls_of(settings) != ENFORCED


def block_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members of a bucket's public access block; empty for none."""
    return settings.get(PUBLIC_ACCESS_BLOCK) or {}


def grants_of(settings: Mapping[str, Any]) -> tuple[storage_model.Grant, ...]:
    """Return the grants of a bucket's access control list that the settings have."""
    return tuple(
        storage_model.Grant(grantee=grantee, permission=permission)
        for grantee, permission in settings.get(ACL, ())
    )
