"""engine: requests that come again, and what is remembered of them.

A client that polls a table with one token, or reads with one presigned URL, sends the same head
again and again; one that signs in the header sends it with another time and signature. A Repeat
keeps what such a head means: its face, its operation with the parsed value, and its proof of
identity. So a repeat is not parsed and not identified. A GET of another key in the same bucket is
one, too, if its head has the same bytes but for the key; so is a PUT of another body, if its head
has the same bytes but for the body's length and digests. A signature that is the same, or a token,
is not computed again; another signature is, over a canonical request that is ready but for the
values that differ (`server.templates`). Nothing that can change is kept: the proof's time and its
owner are checked at every repeat (`Verifier.again`), rights are judged and the answer is made anew.

Only heads are kept whose proof was right; those with a signature in the header if they are GETs,
HEADs or PUTs of objects that were seen before, those of a POST with a body if they have a token and
were seen before: a client that commits to a table sends the same head with another body. Never
refuses: a repeat whose proof does not hold takes the usual way, which knows the error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from server import calls, limits, templates
from server.auth import verify

if TYPE_CHECKING:
    from server import asgi

METHODS_SIGNED_ANEW: Final = ("GET", "HEAD")
TOKEN: Final = b"x-amz-security-token"
AGENT: Final = b"user-agent"
EXPECT: Final = b"expect"

_NO_DIGESTS: Final[Mapping[bytes, bytes]] = {}

T = TypeVar("T")


class Repeat(msgspec.Struct, frozen=True):
    """What the bytes of a head mean. scope: ASGI's, without the connection's part and the headers.
    name: the face's. operation: None if a header that differs is part of the value, so that the
    face identifies the request. context: of a call, to be made anew for each. parts: the values
    that differ, of a head with a template. body_bytes: how long the body is that follows. expects:
    the client waits for `100 Continue` before it sends it. raw_path: of a head whose key differs,
    in place of the scope's; empty for another one. query: the same, of a presigned URL whose time
    and signature differ. comes_again: such a URL for reading came lately, so that its bytes are
    worth keeping."""

    scope: asgi.Scope
    headers: asgi.Headers
    name: str
    operation: calls.Operation | None
    value: Any
    context: Any
    standing: verify.Standing
    parts: templates.Parts = ()
    body_bytes: int = 0
    expects: bool = False
    raw_path: bytes = b""
    query: bytes = b""
    comes_again: bool = False

    def call(self, operation: calls.Operation, request: asgi.Request) -> calls.Call:
        """Return the call that a request with these bytes means."""
        context = self.context
        return calls.Call(
            operation, self.value, request, None if context is None else context.anew()
        )


class _Signed(NamedTuple):
    """A Repeat of one head of a template. before_key: what stands before the key in the path of a
    template whose key differs; empty for another one."""

    template: templates.Template
    repeat: Repeat
    before_key: bytes


class Repeats:
    """Repeats by the bytes of their heads, or by those around the values that differ. Mutable;
    bounded.

    make_headers: returns Headers of what its argument returns, names and values as received.
    """

    def __init__(
        self,
        make_headers: Callable[[Callable[[], templates.RawHeaders]], asgi.Headers],
        *,
        count_max: int = limits.REPEATS_MAX,
    ) -> None:
        self._make_headers = make_headers
        self._count_max = count_max
        self._same: _Generations[Repeat] = _Generations(count_max)
        self._signed: _Generations[_Signed] = _Generations(count_max)
        self._templates: dict[int, tuple[templates.Template, ...]] = {}
        """Templates by the length of their heads."""
        self._keyed: dict[int, tuple[templates.Template, ...]] = {}
        """Templates whose key differs, by the length of their heads behind it."""
        self._sights: dict[int, int] = {}
        self._urls: _Generations[bool] = _Generations(limits.URLS_NOTED_MAX)
        """Heads with presigned URLs that a template served lately."""

    def find(self, head: bytes) -> Repeat | None:
        """Return what a head means, if it is remembered."""
        has_query = False
        if self._keyed:  # first, because most heads that differ are of these
            # Written out, as each call counts (0029): `templates.bytes_behind_key`.
            stop = head.find(templates.VERSION)
            query = head.find(b"?", 0, stop)
            has_query = query >= 0
            if has_query:
                # A URL that is read again and again; its signature is not computed again.
                repeat = self._same.find(head)
                if repeat is not None:
                    return repeat
            tail_bytes = len(head) - (query if has_query else stop)
            for template in self._keyed.get(tail_bytes, ()):
                rest, parts = template.split(head)
                signed = self._signed.find(rest)
                # Two templates may leave the same bytes of different heads.
                if (
                    signed is not None
                    and signed.template is template
                    and template.are_harmless(parts)
                ):
                    return self._with_parts(signed, head, parts)
        if not has_query:
            repeat = self._same.find(head)
            if repeat is not None:
                return repeat
        for template in self._templates.get(len(head), ()):
            rest, parts = template.split(head)
            signed = self._signed.find(rest)
            if signed is not None and signed.template is template and template.are_harmless(parts):
                return self._with_parts(signed, head, parts)
        return None

    def _with_parts(self, signed: _Signed, head: bytes, parts: templates.Parts) -> Repeat | None:
        """Return what a head means that differs from one of a template in its values alone; None if
        a value about its body is malformed, or if it has none and expects `100 Continue`."""
        template, first, before_key = signed
        value, operation, raw_path, body_bytes = first.value, first.operation, b"", 0
        key = None
        if before_key:
            raw_path = before_key + parts[-1]
            key = templates.text_of_key(parts[-1])
        if template.length_index is not None:
            body_bytes = int(parts[template.length_index])
            if not body_bytes and EXPECT in first.headers.joined:
                return None  # see `Exchange`: the connection may end after the answer
            if operation is not None:
                assert operation.with_body is not None, "its body differs"
                digests = template.named(parts) if template.has_digests else _NO_DIGESTS
                value = operation.with_body(value, key, body_bytes, digests)
                if value is None:
                    return None
        elif key is not None and operation is not None:
            assert operation.with_key is not None, "its key differs"
            value = operation.with_key(value, key)
        query, comes_again = b"", False
        if template.query_span is not None:
            query = head[slice(*template.query_span)]
            if template.length_index is None:
                comes_again = self._urls.find(head) is not None
                if not comes_again:
                    self._urls.keep(head, True)
        return Repeat(
            first.scope,
            self._make_headers(functools.partial(template.fill, first.headers.raw, parts)),
            first.name,
            operation,
            value,
            first.context,
            first.standing,
            parts,
            body_bytes,
            first.expects,
            raw_path,
            query,
            comes_again,
        )

    def keep(self, head: bytes, repeat: Repeat) -> None:
        """Remember what a head of at most `limits.REPEAT_BYTES_MAX` means."""
        self._same.keep(head, repeat)

    def keep_signed(self, head: bytes, template: templates.Template, repeat: Repeat) -> None:
        """Remember what a head means, and with it each head that differs in the template's values
        alone. template: of `find_template`."""
        table, length, before_key = self._templates, len(head), b""
        if template.tail_bytes:
            table, length = self._keyed, template.tail_bytes
            before_key = template.before_key(repeat.scope["raw_path"])
        same_length = table.get(length, ())
        if template not in same_length:
            if len(table) >= self._count_max:
                table.clear()
            table[length] = (template, *same_length[: limits.TEMPLATES_OF_LENGTH_MAX - 1])
        self._signed.keep(template.rest(head), _Signed(template, repeat, before_key))

    def find_template(
        self,
        head: bytes,
        request: asgi.Request,
        *,
        key: str = "",
        has_body: bool = False,
        is_presigned: bool = False,
        is_remembered: bool = False,
    ) -> templates.Template | None:
        """Return the template of a head that is worth remembering; None if it is not, or not yet.

        Most heads come once, and a template costs more than it saves the first time. One whose
        rest differs each time is looked at less and less often; a new day or session token begins
        anew. key: of a request that means the same with another one, so that all keys of its bucket
        are one rest. has_body: whether it means the same with another body. is_presigned: whether
        the signature is in the query. is_remembered: whether the head was, and its Standing has
        ended.
        """
        if request.method not in METHODS_SIGNED_ANEW and not has_body:
            return None
        encoded = templates.key_in_path(request.raw_path, key) if key else b""
        signed_query = request.query if is_presigned else b""
        if is_remembered:
            return self._template(head, request, encoded, has_body, signed_query)
        joined = request.headers.joined
        token = joined.get(TOKEN)
        sight: tuple[object, ...]
        if encoded:
            signed = joined.get(templates.AUTHORIZATION, b"").rpartition(templates.SIGNATURE)[0]
            if is_presigned:
                signed = request.query.partition(templates.TIME_IN_QUERY)[0]
            before = head[: -templates.bytes_behind_key(head) - len(encoded)]
            sight = (before, len(head) - len(encoded), signed, joined.get(AGENT), token)
        else:
            day = joined.get(templates.DATE, b"")[:8]
            sight = (request.raw_path, request.query, len(head), day, token)
        sights = self._count_sight(hash(sight))
        if sights == 1 or sights & (sights - 1):
            return None
        return self._template(head, request, encoded, has_body, signed_query)

    def comes_again(self, head: bytes) -> bool:
        """Note a head with a body, and return whether it came before.

        Some clients send an id of its own in each head: these do not drive out others.
        """
        return self._count_sight(hash(head)) > 1

    def _count_sight(self, sight: int) -> int:
        """Return how often a hash of a head was seen, now included."""
        if len(self._sights) >= self._count_max and sight not in self._sights:
            self._sights.clear()
        sights = self._sights[sight] = self._sights.get(sight, 0) + 1
        return sights

    def _template(
        self, head: bytes, request: asgi.Request, key: bytes, has_body: bool, query: bytes
    ) -> templates.Template | None:
        template = templates.of(
            head,
            request.headers.raw,
            request.raw_path,
            key,
            has_body=has_body,
            query=query,
            parameters=request.pairs,
        )
        if template is None:
            return None
        others = self._templates.get(len(head), ())
        if template.tail_bytes:
            others = self._keyed.get(template.tail_bytes, ())
        for other in others:
            if template.is_like(other):
                return other
        return template


class _Generations(Generic[T]):
    """Values by bytes, in two generations of half the size: a full young one becomes the old one,
    and what is used of the old one becomes young again. So what repeats often stays, at the cost
    of a dictionary. Mutable; bounded."""

    def __init__(self, count_max: int) -> None:
        self._generation_max = count_max // 2
        self._young: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def find(self, key: bytes) -> T | None:
        """Return the value of a key, if it is remembered."""
        value = self._young.get(key)
        if value is None and self._old:
            value = self._old.get(key)
            if value is not None:
                self.keep(key, value)
        return value

    def keep(self, key: bytes, value: T) -> None:
        """Remember the value of a key of at most `limits.REPEAT_BYTES_MAX`."""
        assert len(key) <= limits.REPEAT_BYTES_MAX, "what is remembered is bounded"
        if len(self._young) >= self._generation_max:
            self._old, self._young = self._young, {}
        self._young[key] = value
