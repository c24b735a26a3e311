"""engine: who the bearer of an identity provider's token is, for the faces that take such tokens.

The token's signature, issuer, audience and times are checked by keys of the provider that IAM
knows. What its bearer may do is decided by roles that trust the provider.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from server.access import identities, model
from server.oidc import errors, keysets, webtokens
from storage import model as storage_model

ASSUME_BY_TOKEN: Final = "sts:AssumeRoleWithWebIdentity"
"""The action that a role's trust policy allows to such a bearer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Federated:
    """The bearer of a checked token. principal: what decisions on roles are about, with the
    token's claims as condition keys."""

    principal: model.Principal
    identity: webtokens.WebIdentity
    provider: identities.StoredProvider

    @property
    def origin(self) -> dict[str, Any]:
        """The claims by which a session that the token began ends with its provider."""
        return {"idp": self.provider.row.name, "idc": self.provider.row.created_at_ms}


@dataclass(frozen=True, kw_only=True, slots=True)
class Federation:
    """Checks tokens of identity providers. directory: IAM's."""

    directory: identities.Identities
    key_sets: keysets.KeySets
    now_ms: storage_model.NowMs

    async def bearer_of(self, token: str, context: Mapping[str, model.ContextValue]) -> Federated:
        """Return the bearer of a token. context: the condition keys of the request.

        Raises InvalidIdentityToken, ExpiredIdentityToken, RejectedClaim, ProviderUnreachable.
        """
        head = webtokens.read_head(token)
        provider = self._provider_of(head)
        key = await self.key_sets.find(provider.row.url, provider.row.thumbprints, head)
        provider = self._provider_of(head)  # it may have been deleted meanwhile
        identity = webtokens.verify(
            token, head, key, client_ids=provider.row.client_ids, now_ms=self.now_ms()
        )
        name = provider.row.name
        principal = dataclasses.replace(
            provider.entry.principal,
            name=identity.subject,
            context={
                **context,
                "aws:FederatedProvider": provider.entry.principal.arn,
                f"{name}:aud": identity.audience,
                f"{name}:oaud": identity.audiences,
                f"{name}:sub": identity.subject,
                **({f"{name}:amr": identity.methods} if identity.methods else {}),
            },
        )
        return Federated(principal=principal, identity=identity, provider=provider)

    def _provider_of(self, head: webtokens.TokenHead) -> identities.StoredProvider:
        """Return the provider that issued a token. Raises InvalidIdentityToken."""
        provider = self.directory.provider(head.issuer.partition("://")[2])
        if provider is None or provider.row.url != head.issuer:
            raise errors.InvalidIdentityToken(
                "No OpenIDConnect provider found in your account for the token's issuer."
            )
        return provider
