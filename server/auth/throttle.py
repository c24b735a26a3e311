"""engine: delays repeated wrong passwords.

A pair of name and client address has `limits.FAILURES_FREE` failures without delay. Each further
failure doubles the delay of the pair, up to `limits.FAILURE_WAIT_SECONDS_MAX`.
An attempt within the delay is refused without a check and does not extend it; success resets it.
The right password is never delayed from another address, but it is from the address that sends
wrong ones for the same name. Signatures and tokens are never delayed: they cannot be guessed.
Each login endpoint has its own throttle.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from server import limits
from server.access import errors as access_errors
from server.auth import errors
from storage import model as storage_model


class _Failures(NamedTuple):
    times: int
    last_at_ms: int


class Throttle:
    """Remembers failures, at most twice `limits.FAILURES_KEPT_MAX` names and addresses. Mutable.

    Delayed pairs have their own table: new names, however many, evict only each other.
    """

    def __init__(self, *, now_ms: storage_model.NowMs) -> None:
        self._now_ms = now_ms
        self._free: OrderedDict[bytes, _Failures] = OrderedDict()
        self._slowed: OrderedDict[bytes, _Failures] = OrderedDict()

    @contextmanager
    def attempt(self, name: str, client_ip: str) -> Iterator[None]:
        """Check a password within the block: WrongPassword counts, other errors do not, and
        success resets the count. Raises TooManyFailures before the block.

        An attempt counts as a failure until it ends, so concurrent ones are counted too.
        """
        key = _key_of(name, client_ip)
        before = self._find(key)
        self._check(before)
        self._count(key, before)
        try:
            yield
        except access_errors.WrongPassword:
            _trim(self._free)
            _trim(self._slowed)
            raise
        except BaseException:
            self._take_back(key, before)
            raise
        self._forget(key)

    def _check(self, failures: _Failures | None) -> None:
        if failures is None or failures.times < limits.FAILURES_FREE:
            return
        doublings = min(failures.times - limits.FAILURES_FREE, limits.FAILURE_DOUBLINGS_MAX)
        wait_ms = min(2**doublings, limits.FAILURE_WAIT_SECONDS_MAX) * 1000
        passed_ms = self._now_ms() - failures.last_at_ms
        if 0 <= passed_ms < wait_ms:  # a clock that was set back causes no wait
            raise errors.TooManyFailures(
                "too many wrong passwords for this name from this address; try again later",
                retry_after_seconds=-((passed_ms - wait_ms) // 1000),
            )

    def _count(self, key: bytes, before: _Failures | None) -> None:
        now_ms = self._now_ms()
        times = 1
        if before is not None and now_ms - before.last_at_ms < limits.FAILURES_KEPT_SECONDS * 1000:
            times += before.times
        self._keep(key, _Failures(times, now_ms))

    def _take_back(self, key: bytes, before: _Failures | None) -> None:
        """Undo one count; counts of concurrent attempts stay."""
        now = self._find(key)
        if now is None:
            return
        if now.times > 1:
            last_at_ms = now.last_at_ms if before is None else before.last_at_ms
            self._keep(key, _Failures(now.times - 1, last_at_ms))
        else:
            self._forget(key)

    def _find(self, key: bytes) -> _Failures | None:
        return self._slowed.get(key) or self._free.get(key)

    def _keep(self, key: bytes, failures: _Failures) -> None:
        self._forget(key)
        kept = self._free if failures.times < limits.FAILURES_FREE else self._slowed
        kept[key] = failures

    def _forget(self, key: bytes) -> None:
        self._free.pop(key, None)
        self._slowed.pop(key, None)


def _trim(kept: OrderedDict[bytes, _Failures]) -> None:
    while len(kept) > limits.FAILURES_KEPT_MAX:
        kept.popitem(last=False)


def _key_of(name: str, client_ip: str) -> bytes:
    # A digest, because the client chooses the length of the name.
    text = f"{client_ip} {name.casefold()}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()
