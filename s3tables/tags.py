"""engine: tags of table buckets and tables: one function per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from s3tables import labels, names
from s3tables.resources import Resources
from server.access import model

Members = Mapping[str, Any]


async def tag_resource(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """TagResource: adds tags, and replaces those with the same keys."""
    given: Mapping[str, str] = members["tags"]

    def add(old: labels.Tags) -> labels.Tags:
        new = {**old, **given}
        names.check_tags(new)
        return new

    await _change(resources, members["resourceArn"], add)
    return {}


async def untag_resource(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """UntagResource: removes tags; a key that is not there is no fault."""
    keys = set(members["tagKeys"])

    def remove(old: labels.Tags) -> labels.Tags:
        return {key: value for key, value in old.items() if key not in keys}

    await _change(resources, members["resourceArn"], remove)
    return {}


async def list_tags_for_resource(
    resources: Resources, members: Members, principal: model.Principal
) -> Members:
    """ListTagsForResource."""
    return {"tags": resources.tags.get(resources.tag_key(members["resourceArn"]))}


async def _change(
    resources: Resources, arn: str, change: Callable[[labels.Tags], labels.Tags]
) -> None:
    await resources.tags.change(resources.tag_key(arn), change)
