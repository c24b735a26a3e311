"""engine: the policies of table buckets and tables: one function per operation.

A policy is a document of AWS's policy language with principals. It takes effect at once, at every
face: `server.s3.ownership` gives it to each decision about the table bucket, its tables and their
files. A policy that no request could meet (another bucket's resources, actions of another service)
is refused, because it would look as if it protected something. So is a public one: the block of
public access of table buckets is always on, as on AWS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog import commit, owners, records
from s3tables import errors
from s3tables import resources as resources_module
from s3tables.resources import Resources
from server import calls
from server.access import errors as access_errors
from server.access import policies, publicity
from storage import batch, settings
from storage import errors as storage_errors
from storage import model as storage_model

Members = Mapping[str, Any]

SERVICES: Final = ("s3tables", "lake")
"""The services of the actions that a request on a table bucket or a table demands."""
SOME_TABLE: Final = "/table/00000000-0000-0000-0000-000000000000"
"""What a table's ARN has after its bucket's, for a pattern that covers tables to match."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyHolder:
    """The table bucket or, with object_uuid, the table that a policy belongs to."""

    bucket: storage_model.BucketInfo
    object_uuid: str | None
    arn: str

    @property
    def below_shown(self) -> str:
        """What its policy may name beside it, as in a refusal."""
        return "" if self.object_uuid is not None else " or a table in it"

    @property
    def key(self) -> bytes:
        """The key of its settings."""
        if self.object_uuid is None:
            return settings.bucket_key(self.bucket.bucket_id)
        return settings.table_key(self.bucket.bucket_id, self.object_uuid)


async def get_policy(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketPolicy, GetTablePolicy: the text as it was put."""
    holder = _find(resources, call.value.members)
    policy = settings.read(resources.index, holder.key).get(settings.POLICY)
    if policy is None:
        raise errors.NoSuchPolicy
    return {"resourcePolicy": policy}


async def put_policy(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketPolicy, PutTablePolicy: replaces the policy."""
    members = call.value.members
    text: str = members["resourcePolicy"]
    holder = _find(resources, members)
    await asyncio.to_thread(_check, text, holder)
    await _change(resources, call, text)
    return {}


async def delete_policy(resources: Resources, call: calls.Call) -> Members:
    """DeleteTableBucketPolicy, DeleteTablePolicy: no error if there is none."""
    await _change(resources, call, None)
    return {}


async def _change(resources: Resources, call: calls.Call, policy: str | None) -> None:
    """Replace or remove a policy while the policies are those that allow the change."""
    members = call.value.members
    for _ in range(resources_module.ATTEMPTS_MAX):
        holder = _find(resources, members)
        bucket_id, place = holder.bucket.bucket_id, records.Place(bucket=holder.bucket)
        expects = [settings.expect_policies(resources.index, bucket_id)]
        if holder.object_uuid is not None:
            expects.extend(owners.expect(resources.index, place, holder.object_uuid))
        # The rights are those on what the names mean while the expected rows are as read.
        if _find(resources, members).key != holder.key:
            continue
        resources.access.recheck(call.principal, call.operation.demands(resources, call))
        held = batch.merge((batch.Batch(expects=tuple(expects)), commit.hold(place, None)))
        planned = settings.plan_policy(bucket_id, holder.object_uuid, policy)
        try:
            await resources.index.commit(batch.merge((held, planned)))
        except storage_errors.ExpectationFailed:
            continue
        return
    raise errors.Conflict("Policies or names in the bucket changed during the request. Try again.")


def _find(resources: Resources, members: Members) -> PolicyHolder:
    """Return what a call's members name. Raises an error if it does not exist."""
    if "name" not in members:
        bucket = resources.bucket(members["tableBucketARN"])
        return PolicyHolder(bucket=bucket, object_uuid=None, arn=resources.bucket_arn(bucket))
    table = resources.table(members["tableBucketARN"], members["namespace"], members["name"])
    return PolicyHolder(
        bucket=table.bucket,
        object_uuid=table.pointer.object_uuid,
        arn=resources.table_arn(table),
    )


def _check(text: str, holder: PolicyHolder) -> None:
    """Raise MalformedPolicy or PublicPolicyRefused if holder may not have this policy."""
    document = policies.decode(text)
    policies.parse_policy(document, policy_type="resource", is_clients=True)
    statements = document["Statement"]
    listed = isinstance(statements, list)
    for number, statement in enumerate(statements if listed else [statements]):
        path = f"Statement[{number}]" if listed else "Statement"
        if statement["Effect"] == "Allow" and "NotPrincipal" in statement:
            raise _fault(f"{path}.NotPrincipal", "Allow with NotPrincipal is not supported")
        for action in _several(statement.get("Action", ())):
            if action != "*" and action.partition(":")[0].lower() not in SERVICES:
                raise _fault(
                    f"{path}.Action", f"{action!r} is no action on table buckets and tables"
                )
        for resource in _several(statement.get("Resource", ())):
            if not _can_be_of(resource, holder):
                raise _fault(
                    f"{path}.Resource", f"{resource!r} is not {holder.arn}{holder.below_shown}"
                )
    if publicity.is_public(document):
        raise errors.PublicPolicyRefused


def _can_be_of(resource: str, holder: PolicyHolder) -> bool:
    """Return whether a resource's pattern may match the holder of a policy, or a table in it."""
    if "${" in resource:
        return True
    pattern = policies.compile_pattern(resource, variables=False)
    if pattern.matches(holder.arn, {}):
        return True
    if holder.object_uuid is not None:
        return False
    of_bucket = policies.compile_pattern(resource.partition("/table/")[0], variables=False)
    return pattern.matches(holder.arn + SOME_TABLE, {}) or (
        "/table/" in resource and of_bucket.matches(holder.arn, {})
    )


def _several(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def _fault(path: str, what: str) -> access_errors.MalformedPolicy:
    return access_errors.MalformedPolicy(f"{path}: {what}", path=path)
