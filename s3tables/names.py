"""rule: names and ARNs of the s3tables API.

These rules are documented by AWS but are not in its service model; the model's patterns have been
checked before. `storage.names` checks bucket names. Namespaces are not resources and have no ARN.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from s3tables import errors

TAGS_MAX: Final = 50
RESERVED_TAG_PREFIX: Final = "aws:"

_NAMESPACE_NAME = re.compile(r"[a-z0-9]([a-z0-9_]{0,253}[a-z0-9])?")
_TABLE_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,254}")
_ARN = re.compile(
    r"arn:aws:s3tables:(?P<region>[-a-z0-9]*):(?P<account>[0-9]{12})"
    r":bucket/(?P<bucket>[^/]+)(?:/table/(?P<table>[^/]+))?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceName:
    """A table bucket or, with object_uuid, a table in it, parsed from an ARN."""

    region: str
    account_id: str
    bucket: str
    object_uuid: str | None


def parse_arn(arn: str) -> ResourceName | None:
    """Return the resource that an ARN names; None if it is not an ARN of this service."""
    match = _ARN.fullmatch(arn)
    if match is None:
        return None
    return ResourceName(
        region=match["region"],
        account_id=match["account"],
        bucket=match["bucket"],
        object_uuid=match["table"],
    )


def is_table_arn(arn: str) -> bool:
    """Return whether an ARN is that of a table of this service."""
    name = parse_arn(arn)
    return name is not None and name.object_uuid is not None


def check_namespace_name(name: str) -> None:
    """Raise InvalidNamespaceName if a namespace may not have this name."""
    if not _NAMESPACE_NAME.fullmatch(name) or name.startswith("aws"):
        raise errors.InvalidNamespaceName


def check_table_name(name: str) -> None:
    """Raise InvalidTableName if a table may not have this name."""
    if not _TABLE_NAME.fullmatch(name):
        raise errors.InvalidTableName


def check_tags(tags: Mapping[str, str]) -> None:
    """Raise BadRequest if a resource may not have this set of tags."""
    for key in tags:
        if key.lower().startswith(RESERVED_TAG_PREFIX):
            raise errors.BadRequest(f"The tag key {key} is not valid: aws: is reserved.")
    if len(tags) > TAGS_MAX:
        raise errors.BadRequest(f"A resource can have at most {TAGS_MAX} tags.")
