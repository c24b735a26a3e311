"""engine: the operations of IAM on roles."""

from __future__ import annotations

import urllib.parse
from typing import Any, Final

import msgspec

from server import calls, limits
from server.access import identities
from server.access import identityrows as rows
from server.iam import errors, services, users
from server.iam.services import IamServices

SESSION_SECONDS: Final = 60 * 60
"""How long sessions of a role may last, unless it says otherwise."""


async def create_role(iam: IamServices, call: calls.Call) -> services.Members:
    """Create a role without rights."""
    members = call.value.members
    services.check_offered(members, "PermissionsBoundary")
    name = services.check_name(members["RoleName"])
    trust = members["AssumeRolePolicyDocument"]
    _check_trust(trust)
    row = rows.RoleRow(
        name=name,
        role_id=iam.new_id("AROA"),
        path=services.path_of(members),
        created_at_ms=iam.identities.now_ms(),
        tags=users.tags_of(members, ignore_case=True),
        inline={},
        attached=(),
        trust=trust,
        description=members.get("Description", ""),
        max_session_seconds=members.get("MaxSessionDuration", SESSION_SECONDS),
    )

    def plan(draft: identities.IdentityDraft) -> None:
        if draft.role(name) is not None:
            raise errors.EntityAlreadyExists(f"Role with name {name} already exists.")
        counts = draft.counts()
        if counts.roles >= limits.ROLES_MAX:
            raise errors.LimitExceeded(f"Cannot exceed quota for Roles: {limits.ROLES_MAX}")
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, roles=counts.roles + 1))
        draft.put(rows.key_of(rows.ROLE, name), row)

    await iam.identities.change(plan)
    return {"Role": encode_role(iam, row)}


async def get_role(iam: IamServices, call: calls.Call) -> services.Members:
    """Return a role."""
    name = call.value.members["RoleName"]
    row = iam.role(name)
    if row is None:
        raise services.no_such("role", name)
    return {"Role": encode_role(iam, row)}


async def list_roles(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the roles, in pages, in the order of their names."""
    return await services.identities_page(
        iam,
        call.value.members,
        lambda view, after: services.rows_after(view, rows.ROLE, rows.RoleRow, after),
        encode=lambda row: encode_role(iam, row, with_tags=False),
        member="Roles",
    )


async def delete_role(iam: IamServices, call: calls.Call) -> services.Members:
    """Delete a role that has no policies, and so end its sessions."""
    name = call.value.members["RoleName"]
    checked = iam.role(name)

    def plan(draft: identities.IdentityDraft) -> None:
        row = same_role(draft, name, checked)
        users.check_bare(row)
        counts = draft.counts()
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, roles=counts.roles - 1))
        draft.delete(rows.key_of(rows.ROLE, name))

    await iam.identities.change(plan, makes_room=True)
    return {}


async def update_role(iam: IamServices, call: calls.Call) -> services.Members:
    """Change a role's description and the longest life of its sessions."""
    members = call.value.members
    await _change(iam, members["RoleName"], _changes_of(members))
    return {}


async def update_role_description(iam: IamServices, call: calls.Call) -> services.Members:
    """Change a role's description."""
    members = call.value.members
    row = await _change(iam, members["RoleName"], _changes_of(members))
    return {"Role": encode_role(iam, row)}


async def update_assume_role_policy(iam: IamServices, call: calls.Call) -> services.Members:
    """Replace a role's trust policy."""
    members = call.value.members
    _check_trust(members["PolicyDocument"])
    await _change(iam, members["RoleName"], {"trust": members["PolicyDocument"]})
    return {}


def same_role(
    draft: identities.IdentityDraft, name: str, checked: rows.RoleRow | None
) -> rows.RoleRow:
    """Return a role's row within a transaction, as `users.same_user` does."""
    row = draft.role(name)
    if row is None or checked is None or row.role_id != checked.role_id:
        raise services.no_such("role", name)
    return row


def encode_role(iam: IamServices, row: rows.RoleRow, *, with_tags: bool = True) -> services.Members:
    """Return a role as the API's structure."""
    role: dict[str, Any] = {
        "Path": row.path,
        "RoleName": row.name,
        "RoleId": row.role_id,
        "Arn": iam.arn_of(row),
        "CreateDate": row.created_at_ms,
        "AssumeRolePolicyDocument": urllib.parse.quote(row.trust, safe=""),
        "MaxSessionDuration": row.max_session_seconds,
    }
    if row.description:
        role["Description"] = row.description
    if with_tags and row.tags:
        role["Tags"] = users.encode_tags(row.tags)
    return role


def _changes_of(members: Any) -> dict[str, Any]:
    changes = {}
    if "Description" in members:
        changes["description"] = members["Description"]
    if "MaxSessionDuration" in members:
        changes["max_session_seconds"] = members["MaxSessionDuration"]
    return changes


def _check_trust(text: str) -> None:
    count = services.check_policy(text, policy_type="trust")
    if count > limits.TRUST_POLICY_CHARS_MAX:
        raise errors.LimitExceeded(
            f"Cannot exceed quota for ACLSizePerRole: {limits.TRUST_POLICY_CHARS_MAX}"
        )


async def _change(iam: IamServices, name: str, changes: dict[str, Any]) -> rows.RoleRow:
    checked = iam.role(name)

    def plan(draft: identities.IdentityDraft) -> rows.RoleRow:
        row = msgspec.structs.replace(same_role(draft, name, checked), **changes)
        draft.put(rows.key_of(rows.ROLE, name), row)
        return row

    return await iam.identities.change(plan)
