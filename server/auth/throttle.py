"""engine: slows down who guesses passwords, and nobody else.

A name with an address of origin may be wrong `limits.FAILURES_FREE` times; from then on each
failure makes both wait, twice as long as the one before, up to `limits.FAILURE_WAIT_SECONDS_MAX`.
An attempt within the wait is refused unseen and lengthens nothing, so that whoever has the right
password is let in within that time whatever others do; success forgets all. Signatures and tokens
are never slowed: they cannot be guessed. Each door has a throttle of its own.
"""

from __future__ import annotations

import hashlib
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
    """Remembers failures, `limits.FAILURES_KEPT_MAX` names and addresses of them. Mutable."""

    def __init__(self, *, now_ms: storage_model.NowMs) -> None:
        self._now_ms = now_ms
        self._failures: dict[bytes, _Failures] = {}

    @contextmanager
    def attempt(self, name: str, client_ip: str) -> Iterator[None]:
        """Enter to check a password within: WrongPassword counts, anything else that raises does
        not, and success forgets. Raises TooManyFailures without letting anybody in."""
        key = _key_of(name, client_ip)
        self._check(key)
        try:
            yield
        except access_errors.WrongPassword:
            self._count(key)
            raise
        self._failures.pop(key, None)

    def _check(self, key: bytes) -> None:
        failures = self._failures.get(key)
        if failures is None or failures.times < limits.FAILURES_FREE:
            return
        doublings = min(failures.times - limits.FAILURES_FREE, limits.FAILURE_DOUBLINGS_MAX)
        wait_ms = min(2**doublings, limits.FAILURE_WAIT_SECONDS_MAX) * 1000
        passed_ms = self._now_ms() - failures.last_at_ms
        if 0 <= passed_ms < wait_ms:  # a clock that was set back makes nobody wait
            raise errors.TooManyFailures(
                "too many wrong passwords for this name from this address; try again later",
                retry_after_seconds=-((passed_ms - wait_ms) // 1000),
            )

    def _count(self, key: bytes) -> None:
        now_ms = self._now_ms()
        failures = self._failures.pop(key, None)
        count = 1
        if (
            failures is not None
            and now_ms - failures.last_at_ms < limits.FAILURES_KEPT_SECONDS * 1000
        ):
            count += failures.times
        self._failures[key] = _Failures(count, now_ms)
        if len(self._failures) > limits.FAILURES_KEPT_MAX:
            del self._failures[next(iter(self._failures))]


def _key_of(name: str, client_ip: str) -> bytes:
    # A digest, because the name is as long as the client likes.
    text = f"{client_ip} {name.casefold()}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()
