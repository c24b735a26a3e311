"""engine: the operations of IAM on managed policies and their versions."""

from __future__ import annotations

import asyncio
import heapq
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from server import calls, limits
from server.access import canned, identities
from server.access import identityrows as rows
from server.iam import errors, services, users
from server.iam.services import IamServices
from storage import batch

Holder: TypeAlias = rows.UserRow | rows.RoleRow


async def create_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Create a managed policy with one version."""
    members = call.value.members
    name = services.check_name(members["PolicyName"], length_max=128)
    now_ms = iam.identities.now_ms()
    document = _document_of(members)
    row = rows.PolicyRow(
        name=name,
        policy_id=iam.new_id("ANPA"),
        path=services.path_of(members),
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
        tags=users.tags_of(members),
        description=members.get("Description", ""),
        default=1,
        last=1,
        versions=(rows.VersionRow(number=1, document=document, created_at_ms=now_ms),),
    )

    def plan(draft: identities.IdentityDraft) -> None:
        if draft.policy(name) is not None:
            raise errors.EntityAlreadyExists(f"A policy called {name} already exists.")
        counts = draft.counts()
        if counts.policies >= limits.MANAGED_POLICIES_MAX:
            raise errors.LimitExceeded(
                f"Cannot exceed quota for Policies: {limits.MANAGED_POLICIES_MAX}"
            )
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, policies=counts.policies + 1))
        draft.put(rows.key_of(rows.POLICY, name), row)

    await iam.identities.change(plan)
    return {"Policy": _encode(iam, row, attached=0)}


async def get_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Return a managed policy, without its document."""
    arn = call.value.members["PolicyArn"]

    def read() -> services.Members:
        with iam.identities.view() as view:
            row = iam.find_policy(view, arn)
            return {"Policy": _encode(iam, row, attached=_count_attached(view, iam, row))}

    return await asyncio.to_thread(read)


async def list_policies(iam: IamServices, call: calls.Call) -> services.Members:
    """Return managed policies, in pages, in the order of their names."""
    members = call.value.members
    scope = members.get("Scope", "All")
    prefix = members.get("PathPrefix", "/")

    def read() -> services.Members:
        with iam.identities.view() as view:

            def after(name: str) -> Iterator[tuple[rows.PolicyRow, int]]:
                if _is_of_boundaries(members):
                    return
                own = [] if scope == "Local" else _own_after(name)
                stored: Iterator[rows.PolicyRow] = iter(())
                if scope != "AWS":
                    stored = services.rows_after(view, rows.POLICY, rows.PolicyRow, name)
                for row in heapq.merge(own, stored, key=lambda row: row.name.lower()):
                    if row.path.startswith(prefix):
                        attached = _count_attached(view, iam, row)
                        if attached or not members.get("OnlyAttached"):
                            yield row, attached

            return services.page(
                members,
                after,
                name_of=lambda item: item[0].name,
                encode=lambda item: _encode(iam, item[0], attached=item[1], is_listed=True),
                member="Policies",
            )

    return await asyncio.to_thread(read)


async def delete_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Delete a managed policy that is attached to nothing and has one version."""
    arn = call.value.members["PolicyArn"]

    def plan(draft: identities.IdentityDraft) -> None:
        row = _changeable(iam, draft, arn)
        if draft.is_attached(row.name):
            raise errors.DeleteConflict("Cannot delete a policy attached to entities.")
        if len(row.versions) > 1:
            raise errors.DeleteConflict(
                "This policy has more than one version. Before you delete a policy, you must "
                "delete the policy's versions. The default version is deleted with the policy."
            )
        counts = draft.counts()
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, policies=counts.policies - 1))
        draft.delete(rows.key_of(rows.POLICY, row.name))

    await iam.identities.change(plan, makes_room=True)
    return {}


async def create_policy_version(iam: IamServices, call: calls.Call) -> services.Members:
    """Add a version, and put it in force if asked to."""
    members = call.value.members
    document = _document_of(members)
    now_ms = iam.identities.now_ms()

    def plan(draft: identities.IdentityDraft) -> tuple[rows.PolicyRow, rows.VersionRow]:
        row = _changeable(iam, draft, members["PolicyArn"])
        if len(row.versions) >= limits.POLICY_VERSIONS_MAX:
            raise errors.LimitExceeded(
                f"A managed policy can have up to {limits.POLICY_VERSIONS_MAX} versions. Before "
                "you create a new version, you must delete an existing version."
            )
        version = rows.VersionRow(number=row.last + 1, document=document, created_at_ms=now_ms)
        row = msgspec.structs.replace(
            row,
            versions=(*row.versions, version),
            last=version.number,
            default=version.number if members.get("SetAsDefault") else row.default,
            updated_at_ms=now_ms,
        )
        draft.put(rows.key_of(rows.POLICY, row.name), row)
        return row, version

    row, version = await iam.identities.change(plan)
    return {"PolicyVersion": _encode_version(row, version, with_document=False)}


async def get_policy_version(iam: IamServices, call: calls.Call) -> services.Members:
    """Return one version with its document."""
    members = call.value.members
    with iam.identities.view() as view:
        row = iam.find_policy(view, members["PolicyArn"])
    return {"PolicyVersion": _encode_version(row, _version_of(row, members["VersionId"]))}


async def list_policy_versions(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the versions of a managed policy, the newest first."""
    members = call.value.members
    with iam.identities.view() as view:
        row = iam.find_policy(view, members["PolicyArn"])
    by_order = {f"{9_999_999_999 - each.number}": each for each in row.versions}
    return services.page(
        members,
        services.names_after(by_order),
        name_of=str,
        encode=lambda order: _encode_version(row, by_order[order], with_document=False),
        member="Versions",
    )


async def set_default_policy_version(iam: IamServices, call: calls.Call) -> services.Members:
    """Put a version in force, at once."""
    members = call.value.members

    def plan(draft: identities.IdentityDraft) -> None:
        row = _changeable(iam, draft, members["PolicyArn"])
        version = _version_of(row, members["VersionId"])
        draft.put(
            rows.key_of(rows.POLICY, row.name),
            msgspec.structs.replace(
                row, default=version.number, updated_at_ms=iam.identities.now_ms()
            ),
        )

    await iam.identities.change(plan)
    return {}


async def delete_policy_version(iam: IamServices, call: calls.Call) -> services.Members:
    """Delete a version that is not in force."""
    members = call.value.members

    def plan(draft: identities.IdentityDraft) -> None:
        row = _changeable(iam, draft, members["PolicyArn"])
        version = _version_of(row, members["VersionId"])
        if version.number == row.default:
            raise errors.DeleteConflict("Cannot delete the default version of a policy.")
        versions = tuple(each for each in row.versions if each is not version)
        draft.put(
            rows.key_of(rows.POLICY, row.name), msgspec.structs.replace(row, versions=versions)
        )

    await iam.identities.change(plan, makes_room=True)
    return {}


async def tag_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Add or replace tags."""
    added = users.tags_of(call.value.members)

    def tagged(tags: Mapping[str, str]) -> dict[str, str]:
        merged = {**tags, **added}
        users.check_tags(merged)
        return merged

    await _change_tags(iam, call, tagged)
    return {}


async def untag_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Remove tags; absent ones are ignored."""
    removed = frozenset(call.value.members["TagKeys"])

    def untagged(tags: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in tags.items() if key not in removed}

    await _change_tags(iam, call, untagged)
    return {}


async def _change_tags(
    iam: IamServices, call: calls.Call, change: Callable[[Mapping[str, str]], dict[str, str]]
) -> None:
    def plan(draft: identities.IdentityDraft) -> None:
        row = _changeable(iam, draft, call.value.members["PolicyArn"])
        changed = msgspec.structs.replace(row, tags=change(row.tags))
        draft.put(rows.key_of(rows.POLICY, row.name), changed)

    await iam.identities.change(plan)


async def list_policy_tags(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the tags, in pages."""
    with iam.identities.view() as view:
        tags = iam.find_policy(view, call.value.members["PolicyArn"]).tags
    return services.cased_tags_page(call.value.members, tags)


async def list_entities_for_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the users and roles that a managed policy is attached to, in pages."""
    members = call.value.members
    wanted = members.get("EntityFilter")
    prefix = members.get("PathPrefix", "/")

    def read() -> services.Members:
        with iam.identities.view() as view:
            row = iam.find_policy(view, members["PolicyArn"])
            start = rows.attachments_of(_reference(iam, row))
            keys = (
                []
                if _is_of_boundaries(members)
                else [
                    key.removeprefix(start)
                    for key, _ in view.scan(batch.Store.IDENTITIES, start, start[:-1] + b"\x01")
                ]
            )

            def after(name: str) -> Iterator[tuple[str, Holder]]:
                for key in keys:
                    if key.decode() > name and wanted in (None, _ENTITY[key[:1]]):
                        row = _holder(view, key)
                        if row.path.startswith(prefix):
                            yield key.decode(), row

            listed = services.page(
                members,
                after,
                name_of=lambda item: item[0],
                encode=lambda item: _encode_holder(item[1]),
                member="holders",
            )
            holders = listed.pop("holders")
            return {
                **listed,
                "PolicyUsers": [each for each in holders if "UserName" in each],
                "PolicyRoles": [each for each in holders if "RoleName" in each],
                "PolicyGroups": [],
            }

    return await asyncio.to_thread(read)


_ENTITY = {rows.USER: "User", rows.ROLE: "Role"}


def _holder(view: batch.Reading, key: bytes) -> Holder:
    """Return the user or role of a policy's attachment."""
    value = view.get(batch.Store.IDENTITIES, key)
    assert value is not None, "an attachment has its user or role"
    if key[:1] == rows.USER:
        return rows.decode(value, rows.UserRow)
    return rows.decode(value, rows.RoleRow)


def _encode_holder(row: Holder) -> services.Members:
    if isinstance(row, rows.UserRow):
        return {"UserName": row.name, "UserId": row.user_id}
    return {"RoleName": row.name, "RoleId": row.role_id}


def _is_of_boundaries(members: Any) -> bool:
    """Return whether a listing is of permissions boundaries alone: no user or role has one."""
    return bool(members.get("PolicyUsageFilter") == "PermissionsBoundary")


def _document_of(members: Any) -> str:
    document: str = members["PolicyDocument"]
    count = services.check_policy(document, policy_type="identity")
    if count > limits.MANAGED_POLICY_CHARS_MAX:
        raise errors.LimitExceeded(
            f"Cannot exceed quota for PolicySize: {limits.MANAGED_POLICY_CHARS_MAX}"
        )
    return document


def _changeable(iam: IamServices, draft: identities.IdentityDraft, arn: str) -> rows.PolicyRow:
    if services.is_own_policy(arn):
        raise errors.UnmodifiableEntity(f"{arn} is a policy of the server and cannot be changed.")
    return iam.find_policy(draft.reading, arn)


def _own_after(name: str) -> list[rows.PolicyRow]:
    names = sorted(canned.CANNED, key=str.lower)
    return [services.own_row(each) for each in names if each.lower() > name]


def _reference(iam: IamServices, row: rows.PolicyRow) -> str:
    return f"{rows.OWN_PREFIX}{row.name}" if services.is_own_row(row) else row.name


def _count_attached(view: batch.Reading, iam: IamServices, row: rows.PolicyRow) -> int:
    start = rows.attachments_of(_reference(iam, row))
    keys = view.scan(batch.Store.IDENTITIES, start, start[:-1] + b"\x01")
    return sum(1 for _ in keys)


def _version_of(row: rows.PolicyRow, version_id: str) -> rows.VersionRow:
    digits = version_id.removeprefix("v")
    version = row.version(int(digits)) if digits.isdigit() and len(digits) < 10 else None
    if version is None:
        raise errors.NoSuchEntity(
            f"Policy {row.name} version {version_id} does not exist or is not attachable."
        )
    return version


def _encode(
    iam: IamServices, row: rows.PolicyRow, *, attached: int, is_listed: bool = False
) -> services.Members:
    """Return a policy as the API's structure; without description and tags if it is listed."""
    policy: dict[str, Any] = {
        "PolicyName": row.name,
        "PolicyId": row.policy_id,
        "Arn": iam.arn_of(row),
        "Path": row.path,
        "DefaultVersionId": f"v{row.default}",
        "AttachmentCount": attached,
        "PermissionsBoundaryUsageCount": 0,
        "IsAttachable": True,
        "CreateDate": row.created_at_ms,
        "UpdateDate": row.updated_at_ms,
    }
    if is_listed:
        return policy
    if row.description:
        policy["Description"] = row.description
    if row.tags:
        policy["Tags"] = users.encode_tags(row.tags)
    return policy


def _encode_version(
    row: rows.PolicyRow, version: rows.VersionRow, *, with_document: bool = True
) -> services.Members:
    encoded: dict[str, Any] = {
        "VersionId": f"v{version.number}",
        "IsDefaultVersion": version.number == row.default,
        "CreateDate": version.created_at_ms,
    }
    if with_document:
        encoded["Document"] = urllib.parse.quote(version.document, safe="")
    return encoded
