"""engine: the public keys of identity providers, fetched or read when a token needs them.

Keys are kept for KEYS_SECONDS. A token with an unknown key id has them fetched again, so that a
provider may rotate its keys, but not before RETRY_SECONDS have passed, as after a failure: tokens
come from unknown clients, too. One fetch at a time for each provider, and FETCHES_MAX for all, in
threads of their own. A provider whose key set is a file of this machine is never fetched from: the
same rules say when the file is read again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from server.oidc import errors, fetching, providers, webtokens
from storage import model as storage_model

KEYS_SECONDS: Final = 3_600
RETRY_SECONDS: Final = 30
FETCHES_MAX: Final = 4

Fetch: TypeAlias = Callable[[providers.FetchTarget, Sequence[str]], bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """The outcome of a fetch. error: why the keys are none, or those of keys_at_ms."""

    at_ms: int
    keys_at_ms: int
    keys: tuple[webtokens.VerifyingKey, ...]
    error: errors.ProviderUnreachable | None


class KeySets:
    """The keys of all providers. Mutable; it belongs to the event loop.

    files: of key sets, by the URLs of their providers. fetch: blocks.
    """

    def __init__(
        self,
        *,
        now_ms: storage_model.NowMs,
        files: Mapping[str, Path] = MappingProxyType({}),
        fetch: Fetch = fetching.fetch,
    ) -> None:
        self._now_ms = now_ms
        self._files = {url.rstrip("/"): file for url, file in files.items()}
        self._fetch = fetch
        self._fetched: dict[tuple[str, tuple[str, ...]], Fetched] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._threads = concurrent.futures.ThreadPoolExecutor(
            FETCHES_MAX, thread_name_prefix="oidc"
        )

    async def find(
        self, url: str, thumbprints: Sequence[str], head: webtokens.TokenHead
    ) -> webtokens.VerifyingKey:
        """Return the key that signed a token of a provider.

        Raises ProviderUnreachable, and InvalidIdentityToken if the provider has no such key.
        """
        place = (url, tuple(thumbprints))
        fetched = self._fetched.get(place)
        key = None if fetched is None else webtokens.find_key(fetched.keys, head)
        if fetched is None or self._is_due(fetched, is_missing=key is None):
            lock = self._locks.setdefault(url, asyncio.Lock())
            async with lock:
                fetched = self._fetched.get(place)
                key = None if fetched is None else webtokens.find_key(fetched.keys, head)
                if fetched is None or self._is_due(fetched, is_missing=key is None):
                    fetched = await self._read(url, thumbprints, fetched)
                    self._fetched[place] = fetched
                    key = webtokens.find_key(fetched.keys, head)
        if key is not None:
            return key
        if fetched.error is not None:
            raise errors.ProviderUnreachable(str(fetched.error))
        raise errors.InvalidIdentityToken("The identity provider has no key with this id.")

    def close(self) -> None:
        """End the threads, without waiting for a fetch."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, fetched: Fetched, *, is_missing: bool) -> bool:
        age_ms = self._now_ms() - fetched.at_ms
        is_short = is_missing or fetched.error is not None
        return not 0 <= age_ms < (RETRY_SECONDS if is_short else KEYS_SECONDS) * 1000

    async def _read(self, url: str, thumbprints: Sequence[str], before: Fetched | None) -> Fetched:
        loop = asyncio.get_running_loop()
        try:
            keys = await loop.run_in_executor(self._threads, self._read_keys, url, thumbprints)
        except errors.ProviderUnreachable as error:
            now_ms = self._now_ms()
            if before is None or now_ms - before.keys_at_ms >= KEYS_SECONDS * 1000:
                return Fetched(at_ms=now_ms, keys_at_ms=now_ms, keys=(), error=error)
            # Keys that were read before hold until they are too old to trust.
            return dataclasses.replace(before, at_ms=now_ms, error=error)
        now_ms = self._now_ms()
        return Fetched(at_ms=now_ms, keys_at_ms=now_ms, keys=keys, error=None)

    def _read_keys(
        self, url: str, thumbprints: Sequence[str]
    ) -> tuple[webtokens.VerifyingKey, ...]:
        file = self._files.get(url.rstrip("/"))
        if file is not None:
            return webtokens.parse_keys(_content(file))
        provider = providers.parse(url)
        discovery = providers.parse(url.rstrip("/") + providers.DISCOVERY)
        try:
            document = json.loads(self._fetch(discovery, thumbprints))
            issuer, keys_url = document["issuer"], document["jwks_uri"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise errors.ProviderUnreachable(
                "The identity provider's discovery document cannot be read."
            ) from None
        if issuer != url:
            raise errors.ProviderUnreachable(
                "The identity provider's discovery document names another issuer."
            )
        target = providers.parse_keys_url(keys_url, provider)
        return webtokens.parse_keys(self._fetch(target, thumbprints))


def _content(file: Path) -> bytes:
    """Return the bytes of a key set's file. Raises ProviderUnreachable."""
    try:
        with file.open("rb") as opened:
            data = opened.read(fetching.DOCUMENT_BYTES_MAX + 1)
    except OSError:
        raise errors.ProviderUnreachable(
            "The file with the identity provider's key set cannot be read."
        ) from None
    if len(data) > fetching.DOCUMENT_BYTES_MAX:
        raise errors.ProviderUnreachable(
            "The file with the identity provider's key set is longer than"
            f" {fetching.DOCUMENT_BYTES_MAX} bytes."
        )
    return data
