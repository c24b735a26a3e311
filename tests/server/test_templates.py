"""The values of a signed head that differ, against what httptools makes of the head."""

from __future__ import annotations

import string

import httptools
import hypothesis
import pytest
from hypothesis import strategies as st

from server import templates
from tests.server import requesting

HARMLESS = string.ascii_letters + string.digits + "-="
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Parsed:
    """A head as httptools reads it, with lower-case names."""

    def __init__(self, head):
        self.headers = []
        self.complete = False
        httptools.HttpRequestParser(self).feed_data(head)

    def on_header(self, name, value):
        self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_message_complete(self):
        self.complete = True


def head_of(headers=(), target="/bucket/key", **settings):
    """Return the head of a GET that botocore signed. headers: further ones."""
    prepared = requesting.signed("GET", f"http://127.0.0.1:5253{target}", headers, **settings)
    lines = [f"GET {target} HTTP/1.1", "host: 127.0.0.1:5253"]
    lines += [f"{name}: {value}" for name, value in prepared.headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def template_of(head):
    return templates.of(head, Parsed(head).headers)


PLAIN = head_of()
FULL = head_of([("amz-sdk-invocation-id", UUID), ("Range", "bytes=0-99"), ("X-Amz-A", "1")])


def test_the_parts_of_a_head_are_the_values_of_its_headers():
    template = template_of(FULL)
    assert template.names == (
        b"x-amz-date", b"authorization", b"amz-sdk-invocation-id", b"range",
    )  # fmt: skip
    date, signature, invocation, byte_range = template.parts(FULL)
    assert (date, invocation, byte_range) == (b"20251121T160000Z", UUID.encode(), b"bytes=0-99")
    assert FULL.split(b"Signature=")[1][:64] == signature
    rest = template.rest(FULL)
    assert len(rest) == len(FULL) - 16 - 64 - 36 - 10
    for part in (date, signature, invocation, byte_range):
        assert part not in rest
    assert rest.startswith(b"GET /bucket/key HTTP/1.1\r\n")
    assert rest.endswith(b"\r\n\r\n")


def test_heads_that_differ_in_their_parts_alone_have_the_same_rest():
    later = head_of(at_ms=requesting.NOW_MS + 1000)
    assert later != PLAIN
    template = template_of(PLAIN)
    assert template.is_like(template_of(later))
    assert template.rest(later) == template.rest(PLAIN)
    other = head_of(target="/bucket/kez", at_ms=requesting.NOW_MS + 1000)
    assert template.rest(other) != template.rest(PLAIN)


@hypothesis.given(data=st.data())
def test_a_head_with_other_parts_is_filled_as_httptools_parses_it(data):
    template = template_of(FULL)
    head = FULL
    for start, stop in template.spans:
        size = stop - start
        part = data.draw(st.text(HARMLESS, min_size=size, max_size=size)).encode()
        head = head[:start] + part + head[stop:]
    parts = template.parts(head)
    assert parts is not None
    assert template.rest(head) == template.rest(FULL)
    parsed = Parsed(head)
    assert parsed.complete
    assert template.fill(Parsed(FULL).headers, parts) == parsed.headers


def test_a_byte_that_could_end_a_value_is_no_part():
    template = template_of(FULL)
    others = [byte for byte in range(256) if chr(byte) not in HARMLESS]
    assert len(others) == 256 - 64
    for byte in others:
        for start, stop in template.spans:
            for position in (start, stop - 1):
                head = bytearray(FULL)
                head[position] = byte
                assert template.parts(bytes(head)) is None


DATE = b"20251121T160000Z"
UNUSUAL = {
    "no time": (b"X-Amz-Date: " + DATE + b"\r\n", b""),
    "two times": (b"host:", b"x-amz-date: " + DATE + b"\r\nhost:"),
    "a Date header": (b"host:", b"date: Fri, 21 Nov 2025 16:00:00 GMT\r\nhost:"),
    "no authorization": (b"Authorization:", b"Other:"),
    "two authorizations": (b"host:", b"authorization: AWS4-HMAC-SHA256 Signature=\r\nhost:"),
    "two signatures": (b"Credential=", b"Signature=" + b"a" * 64 + b", Credential="),
    "two invocations": (b"host:", b"amz-sdk-invocation-id: a\r\n" * 2 + b"host:"),
    "two ranges": (b"host:", b"range: bytes=0-1\r\n" * 2 + b"host:"),
    "a time of another form": (DATE, b"Fri, 21 Nov 2025"),
    "an empty line before it": (b"GET /", b"\r\nGET /"),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_head_has_no_template(name):
    old, new = UNUSUAL[name]
    assert old in PLAIN
    assert template_of(PLAIN) is not None
    assert template_of(PLAIN.replace(old, new, 1)) is None


@pytest.mark.parametrize("spoil", [bytes.upper, lambda text: text[:-1], lambda text: text + b"0"])
def test_a_signature_of_another_form_has_no_template(spoil):
    signature = PLAIN.split(b"Signature=")[1][:64]
    assert template_of(PLAIN.replace(signature, spoil(signature))) is None


def test_a_head_is_compared_with_what_httptools_made_of_it():
    headers = Parsed(PLAIN).headers
    assert templates.of(PLAIN, headers) is not None
    assert templates.of(PLAIN, headers[1:]) is None
    assert templates.of(PLAIN, [(name, value + b"x") for name, value in headers]) is None
    assert templates.of(PLAIN, [headers[1], headers[0], *headers[2:]]) is None
    assert templates.of(PLAIN + b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", headers) is None
    assert templates.of(PLAIN.replace(b"\r\n\r\n", b"\n\r\n"), headers) is None


def test_spaces_around_values_and_names_in_any_case_do_not_move_the_parts():
    head = FULL.replace(b"X-Amz-Date: ", b"X-AMZ-DATE:  \t ").replace(b"Range: ", b"rAnGe:")
    head = head.replace(b"bytes=0-99", b"bytes=0-99 \t ")
    template = template_of(head)
    assert template.parts(head)[0] == DATE
    assert template.parts(head)[3] == b"bytes=0-99"


def test_a_value_with_other_characters_stays_in_the_rest():
    head = head_of([("Range", "bytes=0-9,20-29"), ("amz-sdk-invocation-id", "a b")])
    template = template_of(head)
    assert template.names == (b"x-amz-date", b"authorization")
    assert b"bytes=0-9,20-29" in template.rest(head)
