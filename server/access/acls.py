"""rule: access control lists: which actions a grant allows to which callers.

Owner and grants are stored with a bucket or an object (`storage.model`). A grant is to a canonical
id or to one of AWS's groups, and allows the actions of its permission; the permission of the same
name means other actions on a bucket than on an object. Source: Amazon S3 user guide, "Access
control list (ACL) overview". `server.access.decide` says when a grant counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from server.access import model
from storage import model as storage_model

GROUPS: Final = "http://acs.amazonaws.com/groups/"
ALL_USERS: Final = f"{GROUPS}global/AllUsers"
AUTHENTICATED_USERS: Final = f"{GROUPS}global/AuthenticatedUsers"
LOG_DELIVERY: Final = f"{GROUPS}s3/LogDelivery"
PUBLIC_GROUPS: Final = frozenset({ALL_USERS, AUTHENTICATED_USERS})
"""Groups of callers that the owner does not know."""
ALL_GROUPS: Final = PUBLIC_GROUPS | {LOG_DELIVERY}

FULL_CONTROL: Final = "FULL_CONTROL"
PERMISSIONS: Final = frozenset({"READ", "WRITE", "READ_ACP", "WRITE_ACP", FULL_CONTROL})
GRANTS_MAX: Final = 100

ANONYMOUS_ID: Final = "65a011a29cdf8ec533ec3d1ccaae921c"
"""The canonical id of the owner of what anonymous callers write, on AWS too."""
EC2_ID: Final = "6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c"
"""The canonical id to which aws-exec-read grants: Amazon EC2, which reads machine images."""

BUCKET_ACTIONS: Final[Mapping[str, str]] = {
    "s3:ListBucket": "READ",
    "s3:ListBucketVersions": "READ",
    "s3:ListBucketMultipartUploads": "READ",
    "s3:PutObject": "WRITE",
    "s3:GetBucketAcl": "READ_ACP",
    "s3:PutBucketAcl": "WRITE_ACP",
}
"""Actions that a bucket's list can allow, and the permission for each."""
OBJECT_ACTIONS: Final[Mapping[str, str]] = {
    "s3:GetObject": "READ",
    "s3:GetObjectVersion": "READ",
    "s3:GetObjectAttributes": "READ",
    "s3:GetObjectVersionAttributes": "READ",
    "s3:GetObjectAcl": "READ_ACP",
    "s3:GetObjectVersionAcl": "READ_ACP",
    "s3:PutObjectAcl": "WRITE_ACP",
    "s3:PutObjectVersionAcl": "WRITE_ACP",
}
"""Actions that belong to an object's owner, and that the object's list can allow. On other actions
on objects the bucket's owner decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grants:
    """The grants that may allow a demand, and the permission that it takes.

    ignores_public: grants to PUBLIC_GROUPS do not count. only_id: the canonical id that the caller
    must have beside the grant; "" for any.
    """

    grants: tuple[storage_model.Grant, ...]
    permission: str
    ignores_public: bool = False
    only_id: str = ""


def allows(grants: Grants, principal: model.Principal) -> bool:
    """Return whether one of the grants allows a principal the permission."""
    if grants.only_id and principal.canonical_id != grants.only_id:
        return False
    return any(
        grant.permission in (grants.permission, FULL_CONTROL)
        and not (grants.ignores_public and grant.grantee in PUBLIC_GROUPS)
        and _names(grant.grantee, principal)
        for grant in grants.grants
    )


def is_public(grants: Iterable[storage_model.Grant]) -> bool:
    """Return whether a grant is to a group of callers that the owner does not know."""
    return any(grant.grantee in PUBLIC_GROUPS for grant in grants)


def canned(
    name: str, *, owner_id: str, bucket_owner_id: str | None
) -> tuple[storage_model.Grant, ...]:
    """Return the grants of a canned list, those to groups first.

    name: one of CANNED_NAMES. bucket_owner_id: of the bucket in which the object lies; None for a
    list of a bucket, to which those that grant to a bucket's owner grant nothing more.
    """
    more = []
    for grantee, permission in _CANNED[name]:
        if grantee == _BUCKET_OWNER:
            if bucket_owner_id is None or bucket_owner_id == owner_id:
                continue
            grantee = bucket_owner_id
        more.append(storage_model.Grant(grantee=grantee, permission=permission))
    own = storage_model.Grant(grantee=owner_id, permission=FULL_CONTROL)
    groups = [grant for grant in more if is_group(grant.grantee)]
    return (*groups, own, *(grant for grant in more if not is_group(grant.grantee)))


def private(owner_id: str) -> tuple[storage_model.Grant, ...]:
    """Return the grants that a bucket or an object has by default."""
    return (storage_model.Grant(grantee=owner_id, permission=FULL_CONTROL),)


def is_group(grantee: str) -> bool:
    """Return whether a grantee is a group's URI."""
    return grantee.startswith(GROUPS)


_BUCKET_OWNER: Final = "bucket-owner"
_CANNED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "private": (),
    "public-read": ((ALL_USERS, "READ"),),
    "public-read-write": ((ALL_USERS, "READ"), (ALL_USERS, "WRITE")),
    "authenticated-read": ((AUTHENTICATED_USERS, "READ"),),
    "aws-exec-read": ((EC2_ID, "READ"),),
    "bucket-owner-read": ((_BUCKET_OWNER, "READ"),),
    "bucket-owner-full-control": ((_BUCKET_OWNER, FULL_CONTROL),),
    "log-delivery-write": ((LOG_DELIVERY, "WRITE"), (LOG_DELIVERY, "READ_ACP")),
}
"""What each canned list grants beside FULL_CONTROL to the owner."""
CANNED_NAMES: Final = frozenset(_CANNED)


def _names(grantee: str, principal: model.Principal) -> bool:
    if grantee == ALL_USERS:
        return True
    if principal.type == "service":
        return grantee == LOG_DELIVERY
    if principal.type == "anonymous":
        return False
    return grantee in (AUTHENTICATED_USERS, principal.canonical_id)
