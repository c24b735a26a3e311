"""engine: the operations of IAM on users and their access keys."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from server import calls, limits
from server.access import identities, programmatic
from server.access import identityrows as rows
from server.iam import errors, renames, services
from server.iam.services import IamServices

SECRET_BYTES: Final = 30
USER_KEY_PREFIX: Final = "AKIA"
NEVER_USED: Final = "N/A"
"""The service and the region of a key that was not used, as AWS has them."""


async def create_user(iam: IamServices, call: calls.Call) -> services.Members:
    """Create a user without rights."""
    members = call.value.members
    services.check_offered(members, "PermissionsBoundary")
    name = services.check_name(members["UserName"])
    row = rows.UserRow(
        name=name,
        user_id=iam.new_id("AIDA"),
        path=services.path_of(members),
        created_at_ms=iam.identities.now_ms(),
        tags=tags_of(members, ignore_case=True),
        inline={},
        attached=(),
        keys=(),
    )

    def plan(draft: identities.IdentityDraft) -> None:
        if draft.user(name) is not None or iam.principals.is_configured(name):
            raise errors.EntityAlreadyExists(f"User with name {name} already exists.")
        counts = draft.counts()
        if counts.users >= limits.USERS_MAX:
            raise errors.LimitExceeded(f"Cannot exceed quota for Users: {limits.USERS_MAX}")
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, users=counts.users + 1))
        draft.put(rows.key_of(rows.USER, name), row)

    await iam.identities.change(plan)
    return {"User": encode_user(iam, row)}


async def get_user(iam: IamServices, call: calls.Call) -> services.Members:
    """Return a user, or the caller."""
    name = services.own_user(call)
    if "UserName" not in call.value.members and call.principal.type == "root":
        root = iam.principals.root
        return {
            "User": {
                "Path": "/",
                "UserName": services.ROOT,
                "UserId": root.principal_id,
                "Arn": root.arn,
                "CreateDate": 0,
            }
        }
    row = iam.user(name)
    if row is None:
        raise services.no_such("user", name)
    return {"User": encode_user(iam, row)}


async def list_users(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the users, in pages, in the order of their names."""
    return await services.identities_page(
        iam,
        call.value.members,
        iam.users_after,
        encode=lambda row: encode_user(iam, row, with_tags=False),
        member="Users",
    )


async def update_user(iam: IamServices, call: calls.Call) -> services.Members:
    """Give a user another name or path. The user's id, keys, policies and tags stay, and policies
    that name the user as a principal follow."""
    members = call.value.members
    name = members["UserName"]
    iam.check_not_configured(name)
    checked = iam.user(name)
    if checked is None:
        raise services.no_such("user", name)
    wanted = renamed(checked, members)
    services.check_name(wanted.name)
    is_another = wanted.name.lower() != checked.name.lower()
    taken = errors.EntityAlreadyExists(f"User with name {wanted.name} already exists.")
    if iam.principals.is_configured(wanted.name):
        raise taken
    before, after = iam.arn_of(checked), iam.arn_of(wanted)
    naming = [] if after == before else await asyncio.to_thread(_policies_naming, iam, before)

    def plan(draft: identities.IdentityDraft) -> None:
        row = same_user(draft, name, checked)
        if iam.arn_of(row) != before:
            raise errors.ConcurrentModification(f"The user {name} was changed at the same time.")
        if is_another:
            if draft.user(wanted.name) is not None:
                raise taken
            draft.delete(rows.key_of(rows.USER, name))
            for key in row.keys:
                owner = wanted.name.lower().encode()
                draft.put_value(rows.access_key_key(key.access_key), owner)
            for token in row.tokens:
                owner = wanted.name.lower().encode()
                draft.put_value(rows.token_key(token.token_id), owner)
            for reference in row.attached:
                draft.delete(rows.attachment_key(reference, rows.USER, name))
                draft.put_value(rows.attachment_key(reference, rows.USER, wanted.name), b"")
        changed = msgspec.structs.replace(row, name=wanted.name, path=wanted.path)
        draft.put(rows.key_of(rows.USER, wanted.name), changed)
        draft.writes += renames.plan_renames(draft.reading, naming, before, after)

    await iam.identities.change(plan)
    return {}


async def delete_user(iam: IamServices, call: calls.Call) -> services.Members:
    """Delete a user that has nothing any more, but for tokens that have expired."""
    name = call.value.members["UserName"]
    iam.check_not_configured(name)
    checked = iam.user(name)
    now_ms = iam.identities.now_ms()

    def plan(draft: identities.IdentityDraft) -> None:
        row = same_user(draft, name, checked)
        if row.keys:
            raise errors.DeleteConflict("Cannot delete entity, must delete access keys first.")
        if any(not programmatic.is_expired(each, now_ms=now_ms) for each in row.tokens):
            raise errors.DeleteConflict(
                "Cannot delete entity, must delete programmatic access tokens first."
            )
        check_bare(row)
        for token in row.tokens:
            draft.delete(rows.token_key(token.token_id))
        counts = draft.counts()
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, users=counts.users - 1))
        draft.delete(rows.key_of(rows.USER, name))

    await iam.identities.change(plan, makes_room=True)
    return {}


async def create_access_key(iam: IamServices, call: calls.Call) -> services.Members:
    """Create a key pair for a user; this answer alone has its secret."""
    name = services.own_user(call)
    iam.check_not_configured(name)
    checked = iam.user(name)
    random = iam.identities.random_bytes
    access_key = USER_KEY_PREFIX + base64.b32encode(random(10)).decode()
    secret_key = base64.b64encode(random(SECRET_BYTES)).decode()
    key = rows.KeyRow(
        access_key=access_key,
        sealed=iam.identities.seal(access_key, secret_key),
        active=True,
        created_at_ms=iam.identities.now_ms(),
    )

    def plan(draft: identities.IdentityDraft) -> rows.UserRow:
        row = same_user(draft, name, checked)
        if len(row.keys) >= limits.ACCESS_KEYS_MAX:
            raise errors.LimitExceeded(
                f"Cannot exceed quota for AccessKeysPerUser: {limits.ACCESS_KEYS_MAX}"
            )
        taken = draft.holds(rows.access_key_key(access_key))
        assert not taken, "80 random bits do not repeat"
        draft.put_value(rows.access_key_key(access_key), row.name.lower().encode())
        draft.put(rows.key_of(rows.USER, name), msgspec.structs.replace(row, keys=(*row.keys, key)))
        return row

    row = await iam.identities.change(plan)
    return {"AccessKey": {**_encode_key(row, key), "SecretAccessKey": secret_key}}


async def update_access_key(iam: IamServices, call: calls.Call) -> services.Members:
    """Make a key pair active or inactive, at once."""
    members = call.value.members
    if members["Status"] not in ("Active", "Inactive"):
        raise errors.InvalidMember("The Status of an access key is Active or Inactive.")
    active = members["Status"] == "Active"
    name, access_key = services.own_user(call), members["AccessKeyId"]
    iam.check_not_configured(name)
    checked = iam.user(name)

    def plan(draft: identities.IdentityDraft) -> None:
        row = same_user(draft, name, checked)
        key = _key_of(row, access_key)
        keys = tuple(
            msgspec.structs.replace(each, active=active) if each is key else each
            for each in row.keys
        )
        draft.put(rows.key_of(rows.USER, name), msgspec.structs.replace(row, keys=keys))

    await iam.identities.change(plan, makes_room=not active)
    return {}


async def delete_access_key(iam: IamServices, call: calls.Call) -> services.Members:
    """Delete a key pair, and so end what was made with it."""
    name, access_key = services.own_user(call), call.value.members["AccessKeyId"]
    iam.check_not_configured(name)
    checked = iam.user(name)

    def plan(draft: identities.IdentityDraft) -> None:
        row = same_user(draft, name, checked)
        key = _key_of(row, access_key)
        keys = tuple(each for each in row.keys if each is not key)
        draft.put(rows.key_of(rows.USER, name), msgspec.structs.replace(row, keys=keys))
        draft.delete(rows.access_key_key(access_key))
        draft.delete(rows.key_use_key(access_key))

    await iam.identities.change(plan, makes_room=True)
    return {}


async def list_access_keys(iam: IamServices, call: calls.Call) -> services.Members:
    """Return a user's access keys, without secrets."""
    name = services.own_user(call)
    row = iam.user(name)
    if row is None:
        raise services.no_such("user", name)
    keys = {key.access_key: key for key in row.keys}
    return services.page(
        call.value.members,
        services.names_after(keys),
        name_of=lambda access_key: access_key,
        encode=lambda access_key: _encode_key(row, keys[access_key]),
        member="AccessKeyMetadata",
    )


async def list_mfa_devices(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the MFA devices of a user that exists, or of root: none, since none can be enabled."""
    name = services.own_user(call)
    is_root = call.principal.type == "root" and "UserName" not in call.value.members
    if not is_root and iam.user(name) is None:
        raise services.no_such("user", name)
    return {"MFADevices": [], "IsTruncated": False}


async def get_access_key_last_used(iam: IamServices, call: calls.Call) -> services.Members:
    """Return when, for which service and in which region an access key was last used."""
    access_key = call.value.members["AccessKeyId"]
    row = iam.key_owner(access_key)
    root = iam.principals.root
    if row is None and access_key != root.access_key:
        raise _no_such_key(access_key)
    use = iam.key_uses.latest(access_key)
    shown: dict[str, Any] = {"ServiceName": NEVER_USED, "Region": NEVER_USED}
    if use is not None:
        shown = {
            "LastUsedDate": use.used_at_ms,
            "ServiceName": use.service,
            "Region": use.region,
        }
    return {"UserName": services.ROOT if row is None else row.name, "AccessKeyLastUsed": shown}


def renamed(row: rows.UserRow, members: Any) -> rows.UserRow:
    """Return a user with the name and the path that UpdateUser gives it. Raises InvalidMember."""
    path = services.path_of({"Path": members.get("NewPath", row.path)})
    return msgspec.structs.replace(row, name=members.get("NewUserName", row.name), path=path)


def same_user(
    draft: identities.IdentityDraft, name: str, checked: rows.UserRow | None
) -> rows.UserRow:
    """Return a user's row within a transaction. Raises NoSuchEntity.

    checked: the row when the caller's rights were checked; a user that was created since then may
    have another ARN.
    """
    row = draft.user(name)
    if row is None or checked is None or row.user_id != checked.user_id:
        raise services.no_such("user", name)
    return row


def check_bare(row: rows.UserRow | rows.RoleRow) -> None:
    """Raise DeleteConflict for an identity that has policies."""
    if row.inline:
        raise errors.DeleteConflict("Cannot delete entity, must delete policies first.")
    if row.attached:
        raise errors.DeleteConflict("Cannot delete entity, must detach all policies first.")


def tags_of(members: Any, *, ignore_case: bool = False) -> dict[str, str]:
    """Return the tags of a request. ignore_case: keys have no case, as those of users and roles.

    Raises InvalidInput and LimitExceeded.
    """
    listed = members.get("Tags", [])
    tags = {tag["Key"]: tag["Value"] for tag in listed}
    keys = {key.lower() for key in tags} if ignore_case else tags
    if len(keys) != len(listed):
        case = "case insensitive" if ignore_case else "unique"
        raise errors.InvalidInput(
            f"Duplicate tag keys found. Please note that Tag keys are {case}."
        )
    check_tags(tags)
    return tags


def merge_tags(tags: dict[str, str], added: dict[str, str]) -> dict[str, str]:
    """Return the tags of a user or role with further ones, which replace those of the same key in
    any case. Raises LimitExceeded."""
    merged = {**without_tags(tags, added), **added}
    check_tags(merged)
    return merged


def without_tags(tags: dict[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Return the tags of a user or role without those of some keys, in any case."""
    removed = {key.lower() for key in keys}
    return {key: value for key, value in tags.items() if key.lower() not in removed}


def check_tags(tags: dict[str, str]) -> None:
    """Raise LimitExceeded for too many tags."""
    if len(tags) > limits.IDENTITY_TAGS_MAX:
        raise errors.LimitExceeded(f"Cannot exceed quota for Tags: {limits.IDENTITY_TAGS_MAX}")


def encode_tags(tags: dict[str, str]) -> list[services.Members]:
    """Return tags as the API's list."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def encode_user(iam: IamServices, row: rows.UserRow, *, with_tags: bool = True) -> services.Members:
    """Return a user as the API's structure."""
    user: dict[str, Any] = {
        "Path": row.path,
        "UserName": row.name,
        "UserId": row.user_id,
        "Arn": iam.arn_of(row),
        "CreateDate": row.created_at_ms,
    }
    if with_tags and row.tags:
        user["Tags"] = encode_tags(row.tags)
    return user


def _policies_naming(iam: IamServices, arn: str) -> list[renames.Key]:
    with iam.identities.view() as view:
        return renames.find_policies(view, arn)


def _key_of(row: rows.UserRow, access_key: str) -> rows.KeyRow:
    for key in row.keys:
        if key.access_key == access_key:
            return key
    raise _no_such_key(access_key)


def _no_such_key(access_key: str) -> errors.NoSuchEntity:
    return errors.NoSuchEntity(f"The Access Key with id {access_key} cannot be found.")


def _encode_key(row: rows.UserRow, key: rows.KeyRow) -> dict[str, Any]:
    return {
        "UserName": row.name,
        "AccessKeyId": key.access_key,
        "Status": "Active" if key.active else "Inactive",
        "CreateDate": key.created_at_ms,
    }
