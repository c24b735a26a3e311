"""engine: the operations of IAM on OpenID Connect providers.

A provider is registered by an administrator. Tokens of no other issuer are accepted, and no other
URL is fetched for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from server import calls, limits
from server.access import arns, identities
from server.access import identityrows as rows
from server.iam import errors, services, users
from server.iam.services import IamServices
from server.oidc import errors as oidc_errors
from server.oidc import providers
from storage import batch

_THUMBPRINT: Final = re.compile(r"[0-9a-f]{40}")


async def create_provider(iam: IamServices, call: calls.Call) -> services.Members:
    """Register a provider. Nothing is fetched before a token of it comes."""
    members = call.value.members
    try:
        name = providers.name_of(members["Url"])
    except oidc_errors.InvalidProviderUrl as error:
        raise errors.InvalidInput(str(error)) from None
    row = rows.ProviderRow(
        url=members["Url"],
        created_at_ms=iam.identities.now_ms(),
        tags=users.tags_of(members),
        client_ids=_client_ids(members.get("ClientIDList", ())),
        thumbprints=_thumbprints(members.get("ThumbprintList", ())),
    )

    def plan(draft: identities.IdentityDraft) -> None:
        if draft.provider(name) is not None:
            raise errors.EntityAlreadyExists(f"Provider with url {members['Url']} already exists.")
        counts = draft.counts()
        if counts.providers >= limits.IDENTITY_PROVIDERS_MAX:
            raise errors.LimitExceeded(
                f"Cannot exceed quota for OpenIdConnectProviders: {limits.IDENTITY_PROVIDERS_MAX}"
            )
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, providers=counts.providers + 1))
        draft.put(rows.provider_key(name), row)

    await iam.identities.change(plan)
    answer: dict[str, Any] = {"OpenIDConnectProviderArn": arns.provider_arn(iam.account, name)}
    if row.tags:
        answer["Tags"] = users.encode_tags(row.tags)
    return answer


async def get_provider(iam: IamServices, call: calls.Call) -> services.Members:
    """Return a provider; its URL is without the scheme, as on AWS."""
    row = _row_of(iam, call)
    answer: dict[str, Any] = {
        "Url": row.name,
        "ClientIDList": list(row.client_ids),
        "ThumbprintList": list(row.thumbprints),
        "CreateDate": row.created_at_ms,
    }
    if row.tags:
        answer["Tags"] = users.encode_tags(row.tags)
    return answer


async def list_providers(iam: IamServices, call: calls.Call) -> services.Members:
    """Return the ARNs of all providers."""
    with iam.identities.view() as view:
        names = [
            key[1:].decode()
            for key, _ in view.scan(
                batch.Store.IDENTITIES, rows.PROVIDER, bytes([rows.PROVIDER[0] + 1])
            )
        ]
    return {
        "OpenIDConnectProviderList": [
            {"Arn": arns.provider_arn(iam.account, name)} for name in names
        ]
    }


async def delete_provider(iam: IamServices, call: calls.Call) -> services.Members:
    """Delete a provider, and so end the sessions that its tokens began."""
    name = _name_of(iam, call)

    def plan(draft: identities.IdentityDraft) -> None:
        if draft.provider(name) is None:
            return  # AWS deletes an absent one, too
        counts = draft.counts()
        draft.put(rows.COUNTS, msgspec.structs.replace(counts, providers=counts.providers - 1))
        draft.delete(rows.provider_key(name))

    await iam.identities.change(plan, makes_room=True)
    return {}


async def add_client_id(iam: IamServices, call: calls.Call) -> services.Members:
    """Add an audience to those whose tokens are accepted."""
    added = call.value.members["ClientID"]

    def change(row: rows.ProviderRow) -> rows.ProviderRow:
        if added in row.client_ids:
            return row
        return msgspec.structs.replace(row, client_ids=_client_ids((*row.client_ids, added)))

    await _change(iam, call, change)
    return {}


async def remove_client_id(iam: IamServices, call: calls.Call) -> services.Members:
    """Remove an audience."""
    removed = call.value.members["ClientID"]

    def change(row: rows.ProviderRow) -> rows.ProviderRow:
        client_ids = tuple(each for each in row.client_ids if each != removed)
        return msgspec.structs.replace(row, client_ids=client_ids)

    await _change(iam, call, change)
    return {}


async def update_thumbprints(iam: IamServices, call: calls.Call) -> services.Members:
    """Replace the thumbprints of a provider's certificates."""
    thumbprints = _thumbprints(call.value.members["ThumbprintList"])

    def change(row: rows.ProviderRow) -> rows.ProviderRow:
        return msgspec.structs.replace(row, thumbprints=thumbprints)

    await _change(iam, call, change)
    return {}


async def tag_provider(iam: IamServices, call: calls.Call) -> services.Members:
    """Add or replace tags."""
    added = users.tags_of(call.value.members)

    def change(row: rows.ProviderRow) -> rows.ProviderRow:
        tags = {**row.tags, **added}
        if len(tags) > limits.IDENTITY_TAGS_MAX:
            raise errors.LimitExceeded(f"Cannot exceed quota for Tags: {limits.IDENTITY_TAGS_MAX}")
        return msgspec.structs.replace(row, tags=tags)

    await _change(iam, call, change)
    return {}


async def untag_provider(iam: IamServices, call: calls.Call) -> services.Members:
    """Remove tags."""
    removed = frozenset(call.value.members["TagKeys"])

    def change(row: rows.ProviderRow) -> rows.ProviderRow:
        tags = {key: value for key, value in row.tags.items() if key not in removed}
        return msgspec.structs.replace(row, tags=tags)

    await _change(iam, call, change)
    return {}


async def list_provider_tags(iam: IamServices, call: calls.Call) -> services.Members:
    """Return a provider's tags, in pages."""
    return services.cased_tags_page(call.value.members, _row_of(iam, call).tags)


async def _change(
    iam: IamServices, call: calls.Call, change: Callable[[rows.ProviderRow], rows.ProviderRow]
) -> None:
    name = _name_of(iam, call)

    def plan(draft: identities.IdentityDraft) -> None:
        row = draft.provider(name)
        if row is None:
            raise _no_such(call)
        draft.put(rows.provider_key(name), change(row))

    await iam.identities.change(plan)


def _row_of(iam: IamServices, call: calls.Call) -> rows.ProviderRow:
    stored = iam.identities.provider(_name_of(iam, call))
    if stored is None:
        raise _no_such(call)
    return stored.row


def _name_of(iam: IamServices, call: calls.Call) -> str:
    arn: str = call.value.members["OpenIDConnectProviderArn"]
    prefix = arns.provider_arn(iam.account, "")
    name = arn.removeprefix(prefix)
    if not arn.startswith(prefix) or not name or not name.isascii():
        raise errors.InvalidInput(f"Invalid ARN: {arn}")
    if len(name) > identities.PROVIDER_NAME_CHARS_MAX:
        raise _no_such(call)
    return name


def _no_such(call: calls.Call) -> errors.NoSuchEntity:
    arn = call.value.members["OpenIDConnectProviderArn"]
    return errors.NoSuchEntity(f"OpenIDConnect Provider not found for arn {arn}")


def _client_ids(listed: Sequence[str]) -> tuple[str, ...]:
    client_ids = tuple(dict.fromkeys(listed))
    if len(client_ids) > limits.CLIENT_IDS_MAX:
        raise errors.LimitExceeded(
            f"Cannot exceed quota for ClientIdsPerOpenIdConnectProvider: {limits.CLIENT_IDS_MAX}"
        )
    return client_ids


def _thumbprints(listed: Sequence[str]) -> tuple[str, ...]:
    thumbprints = tuple(dict.fromkeys(each.lower() for each in listed))
    if len(thumbprints) > limits.THUMBPRINTS_MAX:
        raise errors.InvalidInput(
            f"Thumbprint list must contain fewer than {limits.THUMBPRINTS_MAX + 1} entries."
        )
    if not all(_THUMBPRINT.fullmatch(each) for each in thumbprints):
        raise errors.InvalidInput("Thumbprint must be a string of 40 hexadecimal digits.")
    return thumbprints
