"""engine: requests that come again byte for byte, and what is remembered of them.

A client that polls a table with one token, or reads with one presigned URL, sends the same head
again and again. A Repeat keeps what such a head means: its face, its operation with the parsed
value, and its proof of identity. So a repeat is not parsed, not identified, and its signature or
token is not computed again. Nothing that can change is kept: the proof's time and its owner are
checked at every repeat (`Verifier.again`), rights are judged and the answer is made anew.

Only heads without a body are kept whose proof was right and holds for longer than one request: a
signature in the header is made anew for each request, and so is never kept. Never refuses: a repeat
whose proof does not hold any more takes the usual way, which knows the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from server import calls, limits
from server.auth import verify

if TYPE_CHECKING:
    from server import asgi


class Repeat(NamedTuple):
    """What the bytes of a head mean. scope: ASGI's, without the connection's part. name: the
    face's. context: of a call, to be made anew for each."""

    scope: asgi.Scope
    headers: asgi.Headers
    name: str
    operation: calls.Operation
    value: Any
    context: Any
    standing: verify.Standing

    def call(self, request: asgi.Request) -> calls.Call:
        """Return the call that a request with these bytes means."""
        context = self.context
        return calls.Call(
            self.operation, self.value, request, None if context is None else context.anew()
        )


class Repeats:
    """Repeats by the bytes of their heads. Mutable; bounded.

    Two generations of half the size: a full young one becomes the old one, and what is used of the
    old one becomes young again. So what repeats often stays, at the cost of a dictionary.
    """

    def __init__(self, *, count_max: int = limits.REPEATS_MAX) -> None:
        self._generation_max = count_max // 2
        self._young: dict[bytes, Repeat] = {}
        self._old: dict[bytes, Repeat] = {}

    def find(self, head: bytes) -> Repeat | None:
        """Return what a head means, if it is remembered."""
        repeat = self._young.get(head)
        if repeat is None and self._old:
            repeat = self._old.get(head)
            if repeat is not None:
                self.keep(head, repeat)
        return repeat

    def keep(self, head: bytes, repeat: Repeat) -> None:
        """Remember what a head of at most `limits.REPEAT_BYTES_MAX` means."""
        assert len(head) <= limits.REPEAT_BYTES_MAX, "what is remembered is bounded"
        if len(self._young) >= self._generation_max:
            self._old, self._young = self._young, {}
        self._young[head] = repeat
