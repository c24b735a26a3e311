"""Bodies of forms: what Python's own parser of MIME reads is read, garbage has one error, and
pieces mean what the whole means."""

from __future__ import annotations

import contextlib
import email.message
import email.parser
import email.policy
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from server.s3 import errors, forms
from tests.kit import examples

BOUNDARY = "b-1"
REFUSED = (errors.MalformedForm, errors.FormTooLarge, errors.FileMissing)
LIKE_DELIMITERS = st.sampled_from(
    [b"\r\n", b"\r", b"\n", b"--", b"--b", b"\r\n--b-", b"\r\n--b-2", b"-1--", b"\r\n\r\n"]
)
CONTENTS = st.lists(st.one_of(st.binary(max_size=8), LIKE_DELIMITERS), max_size=8).map(b"".join)
NAMES = st.text(st.sampled_from("abzKEY-$ ;=.é"), min_size=1, max_size=8).filter(
    lambda name: name == name.strip() and name.lower() != "file"
)
FIELDS = st.lists(st.tuples(NAMES, st.text(max_size=12)), max_size=4)
PIECES = st.one_of(
    LIKE_DELIMITERS,
    st.sampled_from(
        [
            b"\r\n--b-1\r\n",
            b"--b-1\r\n",
            b"\r\n--b-1--",
            b'Content-Disposition: form-data; name="key"\r\n\r\n',
            b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n',
            b"Content-Disposition: form-data; name=file\r\n",
            b'; name="',
            b"value",
        ]
    ),
    st.binary(max_size=6),
)


def encode(fields: list[tuple[str, str]], content: bytes) -> bytes:
    parts = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()
        for name, value in fields
    ]
    head = b'Content-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    mark = f"--{BOUNDARY}".encode()
    return (
        mark
        + b"\r\n"
        + (b"\r\n" + mark + b"\r\n").join([*parts, head + content])
        + (b"\r\n" + mark + b"--\r\n")
    )


def decode(data: bytes, cuts: list[int]) -> list[Any]:
    decoder = forms.Decoder(BOUNDARY)
    events: list[Any] = []
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        for event in decoder.feed(data[start:stop]):
            if isinstance(event, bytes) and events and isinstance(events[-1], bytes):
                events[-1] += event
            else:
                events.append(event)
    decoder.finish()
    return events


def outcome(data: bytes, cuts: list[int]) -> Any:
    try:
        return decode(data, cuts)
    except REFUSED as error:
        return type(error)


def by_email(data: bytes) -> list[Any]:
    """The same form, read by the standard library's parser of mail."""
    head = f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + data)
    contents = []
    for part in message.iter_parts():  # type: ignore[attr-defined]  # a message of parts
        assert isinstance(part, email.message.Message)
        contents.append(part.get_payload(decode=True))
    return contents


@examples.at_most(300)
@given(FIELDS, CONTENTS, st.data())
def test_a_form_means_what_it_was_made_of(
    fields: list[tuple[str, str]], content: bytes, data: st.DataObject
) -> None:
    body = encode(fields, content)
    mark = f"\r\n--{BOUNDARY}".encode()
    if any(mark in b"\r\n" + value.encode() for _, value in fields) or mark in b"\r\n" + content:
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    expected: list[Any] = [forms.Field(name.lower(), value) for name, value in fields]
    expected.append(forms.File("x"))
    if content:
        expected.append(content)
    assert decode(body, cuts) == expected


@examples.at_most(200)
@given(FIELDS, st.binary(max_size=30).filter(lambda data: b"\r" not in data and b"\n" not in data))
def test_the_standard_library_reads_the_same_values(
    fields: list[tuple[str, str]], content: bytes
) -> None:
    # It splits lines at more than CRLF, so its values are compared where none has such a character.
    plain = [(name, value) for name, value in fields if value.isprintable()]
    body = encode(plain, content)
    contents = by_email(body)
    assert contents == [*(value.encode() for _, value in plain), content]
    events = decode(body, [])
    assert [event.value.encode() for event in events if isinstance(event, forms.Field)] == (
        contents[:-1]
    )


@examples.at_most(600)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.data())
@example(b"\r\n--b-1\r\n\r\n", None)
def test_garbage_is_refused_by_its_own_errors_and_alike_in_pieces(
    body: bytes, data: st.DataObject | None
) -> None:
    cuts = list(range(1, len(body)))
    if data is not None:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    assert outcome(body, []) == outcome(body, cuts)


@examples.at_most(300)
@given(st.one_of(st.text(max_size=60), st.text(max_size=30).map("multipart/form-data;".__add__)))
def test_any_content_type_names_a_boundary_or_is_refused(header: str) -> None:
    with contextlib.suppress(errors.MalformedForm, errors.NotAForm):
        forms.Decoder(forms.parse_boundary(header))
