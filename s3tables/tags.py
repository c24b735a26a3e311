"""engine: tags of table buckets and tables: one function per operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catalog import records
from s3tables import access, labels, names
from s3tables.resources import Resources
from server import calls
from server.access import model
from storage import batch

Members = Mapping[str, Any]


async def tag_resource(resources: Resources, call: calls.Call) -> Members:
    """TagResource: adds tags, and replaces those with the same keys. They are in the body."""
    members = call.value.members
    demands = functools.partial(access.demands, resources, call, actions=("TagResource",))
    resources.access.check(call.principal, demands())
    added: Mapping[str, str] = members["tags"]

    def add(old: labels.Tags) -> labels.Tags:
        new = {**old, **added}
        names.check_tags(new)
        return new

    await _change(resources, call, add, demands=demands)
    return {}


async def untag_resource(resources: Resources, call: calls.Call) -> Members:
    """UntagResource: removes tags; keys that the resource does not have are ignored."""
    members = call.value.members
    keys = set(members["tagKeys"])

    def remove(old: labels.Tags) -> labels.Tags:
        return {key: value for key, value in old.items() if key not in keys}

    await _change(resources, call, remove)
    return {}


async def list_tags_for_resource(resources: Resources, call: calls.Call) -> Members:
    """ListTagsForResource."""
    members = call.value.members
    arn = members["resourceArn"]
    if names.is_table_arn(arn):
        return {"tags": resources.labels.of_table(resources.table_by_arn(arn).label_key)}
    return {"tags": resources.labels.of_bucket(resources.bucket(arn).name)}


async def _change(
    resources: Resources,
    call: calls.Call,
    change: labels.Change,
    *,
    demands: Callable[[], Sequence[model.Demand]] | None = None,
) -> None:
    arn = call.value.members["resourceArn"]
    table = resources.table_by_arn(arn) if names.is_table_arn(arn) else None
    bucket = resources.bucket(arn) if table is None else table.bucket

    async def commit(policies: batch.Expect) -> None:
        if table is None:
            await resources.labels.change_bucket(bucket, change, expects=(policies,))
            return
        place = records.Place(bucket=bucket)
        object_uuid = table.pointer.object_uuid
        await resources.labels.change_table(place, object_uuid, change, expects=(policies,))

    await resources.change_judged(call, bucket, commit, demands=demands)
