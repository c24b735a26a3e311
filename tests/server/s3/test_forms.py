"""Bodies of browsers' forms, decoded as they arrive."""

from __future__ import annotations

import pytest

from server import limits
from server.s3 import errors, forms

BOUNDARY = "----WebKitFormBoundaryABC"


def part(name: str, value: bytes, *more: str, headers: tuple[str, ...] = ()) -> bytes:
    disposition = "; ".join((f'Content-Disposition: form-data; name="{name}"', *more))
    head = "\r\n".join((disposition, *headers)).encode()
    return b"\r\n--" + BOUNDARY.encode() + b"\r\n" + head + b"\r\n\r\n" + value


def body(*parts: bytes, end: bytes = b"--\r\n") -> bytes:
    return (b"".join(parts) + b"\r\n--" + BOUNDARY.encode() + end)[2:]


def decode(data: bytes, *, step: int = 0, boundary: str = BOUNDARY) -> list[object]:
    """The events of a body in pieces of `step` bytes; those of one file are joined."""
    decoder = forms.Decoder(boundary)
    events: list[object] = []
    for start in range(0, len(data), step or max(len(data), 1)):
        for event in decoder.feed(data[start : start + (step or len(data))]):
            if isinstance(event, bytes) and events and isinstance(events[-1], bytes):
                events[-1] += event
            else:
                events.append(event)
    decoder.finish()
    return events


FORM = body(
    part("key", b"user/${filename}"),
    part("Content-Type", "text/plän".encode()),
    part("empty", b""),
    part(
        "file", b"one\r\n--two\r\n\r\n", 'filename="C:\\dir\\a.txt"', headers=("Content-Type: x/y",)
    ),
    part("submit", b"behind the file"),
)
EVENTS = [
    forms.Field("key", "user/${filename}"),
    forms.Field("content-type", "text/plän"),
    forms.Field("empty", ""),
    forms.File("a.txt"),
    b"one\r\n--two\r\n\r\n",
]


@pytest.mark.parametrize("step", [0, *range(1, 40)])
def test_a_form_is_the_same_however_it_is_split(step: int) -> None:
    assert decode(FORM, step=step) == EVENTS


def test_a_preamble_and_what_follows_the_end_are_ignored() -> None:
    assert decode(b"This is a form.\r\n" + FORM + b"epilogue\r\n") == EVENTS


def test_an_empty_file_is_a_file() -> None:
    assert decode(body(part("file", b"", 'filename=""'))) == [forms.File("")]


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ('filename="a.txt"', "a.txt"),
        ("filename=a.txt", "a.txt"),
        ('filename="/home/me/a b.txt"', "a b.txt"),
        (r'filename="C:\Users\me\a.txt"', "a.txt"),
        (r'filename="quo\"ted.txt"', 'quo"ted.txt'),
        ('filename="semi;colon=.txt"', "semi;colon=.txt"),
        ('filename="naïve.txt"', "naïve.txt"),
        ('filename="dir/"', ""),
    ],
)
def test_a_filename_is_what_follows_the_last_slash(sent: str, name: str) -> None:
    assert decode(body(part("file", b"x", sent)))[0] == forms.File(name)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no delimiter at all",
        body(part("key", b"k"), part("file", b"x"), end=b""),
        body(part("key", b"k"), part("file", b"x"), end=b"-"),
        body(part("key", b"k"), part("file", b"x"), end=b"xx"),
        body(part("key", b"k"), part("file", b"x"))[:-40],
        body(part("key", b"k"), part("file", b"a\r\n--" + BOUNDARY.encode() + b"more")),
        body(part("key", b"\xff"), part("file", b"x")),
        body(part("", b"k"), part("file", b"x")),
        body(part("file", b"x", 'filename="\xff"'.encode("latin-1").decode("latin-1"))).replace(
            "\xff".encode(), b"\xff"
        ),
        body(part("file", b"x", "filename*=utf-8''a.txt")),
        body(part("file", b"x", 'filename="a"; filename="b"')),
        body(part("file", b"x", 'filename="open')),
        body(part("file", b"x", headers=("Content-Transfer-Encoding: base64",))),
        body(part("file", b"x", headers=(" folded: header",))),
        body(part("file", b"x", headers=("no colon",))),
        body(part("file", b"x").replace(b"form-data", b"attachment")),
        body(part("file", b"x").replace(b"Content-Disposition", b"Content-Whatever")),
        body(part("file", b"x")).replace(b"\r\n", b"\n"),
    ],
)
def test_a_body_that_is_no_form_is_malformed(data: bytes) -> None:
    for step in (0, 1, 7):
        with pytest.raises(errors.MalformedForm):
            decode(data, step=step)


def test_a_form_without_a_file_is_refused() -> None:
    for data in (body(part("key", b"k")), body()):
        with pytest.raises(errors.FileMissing):
            decode(data)


@pytest.mark.parametrize(
    "data",
    [
        body(part("a", b"x" * limits.POST_FORM_BYTES_MAX), part("file", b"x")),
        body(*[part(f"f{n}", b"") for n in range(limits.POST_FORM_PARTS_MAX)], part("file", b"x")),
        b"x" * (limits.POST_FORM_BYTES_MAX + 1),
        body(part("n" * limits.POST_FORM_BYTES_MAX, b"")),
        b"--" + BOUNDARY.encode() + b"\r\n" + b"a: b\r\n" * limits.POST_FORM_BYTES_MAX,
    ],
)
def test_what_precedes_the_file_is_bounded(data: bytes) -> None:
    for step in (0, 1000):
        with pytest.raises(errors.FormTooLarge):
            decode(data, step=step)


def test_what_follows_the_file_is_bounded() -> None:
    rest = b"x" * (limits.POST_FORM_BYTES_MAX + 1)
    with pytest.raises(errors.MalformedForm):
        decode(body(part("file", b"x"), part("a", rest)))


def test_no_more_of_a_file_is_kept_than_a_delimiter() -> None:
    decoder = forms.Decoder(BOUNDARY)
    decoder.feed(body(part("file", b""), end=b"")[: -len(BOUNDARY) - 4])
    held_bytes = 0
    for data in (b"\r\n--" * 100_000, b"\r" * 100_000, b"\r\n--" + BOUNDARY[:-1].encode()):
        held_bytes += len(data) - sum(len(event) for event in decoder.feed(data))
        assert held_bytes < len(BOUNDARY) + 4


@pytest.mark.parametrize(
    ("header", "boundary"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b:c"', "a b:c"),
        ("multipart/form-data;boundary=----WebKit1;", "----WebKit1"),
    ],
)
def test_the_boundary_is_a_parameter_of_the_content_type(header: str, boundary: str) -> None:
    assert forms.parse_boundary(header) == boundary


@pytest.mark.parametrize(
    "header",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="a "',
        "multipart/form-data; boundary=" + "a" * 71,
        "multipart/form-data; boundary=é",
        "multipart/form-data; boundary=a; boundary=b",
    ],
)
def test_a_content_type_without_a_usable_boundary_is_malformed(header: str) -> None:
    with pytest.raises(errors.MalformedForm):
        forms.parse_boundary(header)


@pytest.mark.parametrize("header", [None, "", "text/plain", "multipart/mixed; boundary=a"])
def test_another_content_type_is_no_form(header: str | None) -> None:
    with pytest.raises(errors.NotAForm):
        forms.parse_boundary(header)
