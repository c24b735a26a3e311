"""The values of a signed head that differ, against what httptools makes of the head."""

from __future__ import annotations

import re
import string

import httptools
import hypothesis
import pytest
from hypothesis import strategies as st

from server import limits, templates
from server.auth import sigv4
from server.s3 import operations
from tests.server import requesting

HARMLESS = string.ascii_letters + string.digits + "-="
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Parsed:
    """A head as httptools reads it, with lower-case names."""

    def __init__(self, head):
        self.headers = []
        self.url = b""
        self.complete = False
        httptools.HttpRequestParser(self).feed_data(head)

    def on_url(self, url):
        self.url += url

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


@pytest.mark.parametrize(
    "changed",
    [
        {"names": (templates.DATE, templates.AUTHORIZATION, b"x-amz-checksum-crc32c")},
        {"spans": ((-90, -74), (-70, -6), (-4, -2))},
        {"indexes": (0, 2, 1)},
        {"query_span": (-99, -80)},
        {"searched_from": 6},
        {"tail_bytes": 101},
    ],
    ids=str,
)
def test_templates_are_alike_if_they_have_the_same_values_in_the_same_places(changed):
    settings = {
        "names": (templates.DATE, templates.AUTHORIZATION, templates.INVOCATION),
        "spans": ((-90, -74), (-70, -6), (-5, -2)),
        "indexes": (0, 1, 2),
        "query_span": (-99, -90),
        "searched_from": 5,
        "tail_bytes": 100,
    }
    one = templates.Template(**settings)
    assert one.is_like(templates.Template(**settings))
    assert not one.is_like(templates.Template(**{**settings, **changed}))


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
    assert templates.of(PLAIN[:-2] + b"x\r\n", headers) is None


@pytest.mark.parametrize(
    ("line", "header"),
    [
        (b"host: 127.0.0.1:5253", (b"host", b"other")),
        (b"host: 127.0.0.1:5253", (b"hose", b"127.0.0.1:5253")),
        (b"host: \r127.0.0.1:5253", (b"host", b"\r127.0.0.1:5253")),
        (b"host: \n127.0.0.1:5253", (b"host", b"\n127.0.0.1:5253")),
        (b"host", (b"host", b"")),
    ],
)
def test_each_header_is_compared_with_its_line_and_no_line_ends_within_it(line, header):
    host, *others = Parsed(PLAIN).headers
    assert host == (b"host", b"127.0.0.1:5253")
    head = PLAIN.replace(b"host: 127.0.0.1:5253", line, 1)
    assert templates.of(head, [header, *others]) is None


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


# Heads before a body.

BODY_HEADERS = {
    "content-length": "4096",
    "x-amz-content-sha256": "0123456789abcdef" * 4,
    "content-md5": "ab+/" * 5 + "cd==",
    "x-amz-checksum-crc32": "ab+/cd==",
    "x-amz-checksum-crc32c": "ab+/cd==",
    "x-amz-checksum-crc64nvme": "ab+/ab+/cde=",
    "x-amz-checksum-sha1": "ab+/" * 6 + "cde=",
    "x-amz-checksum-sha256": "ab+/" * 10 + "cde=",
}


def put_head(headers):
    """Return the head of a PUT with these headers; its signature is not right."""
    signed = head_of().replace(b"GET ", b"PUT ", 1)
    for name in ("x-amz-content-sha256", "content-length"):
        signed = re.sub(rb"(?i)" + name.encode() + rb": [^\r]*\r\n", b"", signed)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return signed[:-2] + lines.encode() + b"\r\n"


def bodied_of(head, path=b"/bucket/key", key=b"key"):
    return templates.of(head, Parsed(head).headers, path, key, has_body=True)


def test_what_a_head_says_about_its_body_are_values_of_a_put_alone():
    head = put_head(BODY_HEADERS)
    template = bodied_of(head)
    names = {name.encode() for name in BODY_HEADERS}
    assert names < set(template.names)
    assert (
        template.named(template.parts(head))[b"content-md5"] == BODY_HEADERS["content-md5"].encode()
    )
    assert names.isdisjoint(keyed_of(head).names)
    other = put_head({name: value.swapcase() for name, value in BODY_HEADERS.items()})
    assert template.rest(other) == template.rest(head)
    assert template.fill(Parsed(head).headers, template.parts(other)) == Parsed(other).headers


@pytest.mark.parametrize("name", sorted(set(BODY_HEADERS) - {"content-length"}))
def test_a_digest_of_another_form_is_no_value(name):
    value = BODY_HEADERS[name]
    for other in (value[:-1], value + "=", " ".join(value), "-" + value[1:], value[:-1] + "*"):
        template = bodied_of(put_head({**BODY_HEADERS, name: other}))
        assert name.encode() not in template.names


@pytest.mark.parametrize(
    "lines",
    [
        {"content-length": "4096", "Content-Length": "4096"},
        {"content-length": "4096", "transfer-encoding": "chunked"},
        {"transfer-encoding": "chunked"},
        {},
        {"content-length": "4096", "content-md5": BODY_HEADERS["content-md5"], "Content-MD5": "a"},
    ],
)
def test_a_body_that_no_single_length_frames_has_no_template(lines):
    head = put_head(lines)
    parsed = [(name.lower().encode(), value.encode()) for name, value in lines.items()]
    headers = [*Parsed(put_head({})).headers, *parsed]
    assert templates.of(head, headers, b"/bucket/key", b"key", has_body=True) is None


def test_lengths_with_more_digits_are_of_another_template_and_leave_other_bytes():
    heads = [put_head({"content-length": length}) for length in ("9", "10", "100")]
    rests = {bodied_of(head).rest(head) for head in heads}
    assert len(rests) == 3


def test_a_length_is_digits_alone_and_a_key_has_no_sign_of_base64():
    template = bodied_of(put_head(BODY_HEADERS))
    for length in (b"4a96", b"-096", b"+096", b"0x10", b"40_6", b"4.96", b"40%6"):
        assert template.parts(put_head(BODY_HEADERS).replace(b"4096", length, 1)) is None
    for key in (b"a+b", b"a=b", b"a==", b"+"):
        assert template.parts(with_key(put_head(BODY_HEADERS), key)) is None
    for byte in range(256):
        head = put_head(BODY_HEADERS).replace(b"0123456789abcdef", b"%c123456789abcdef" % byte, 1)
        is_harmless = chr(byte) in HARMLESS + "/_.~%+"
        assert (template.parts(head) is not None) == is_harmless


# Presigned URLs.

QUERY = (
    b"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20251121%2Fus-east-1%2Fs3%2Faws4_request"
    b"&X-Amz-Date=20251121T160000Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host&X-Amz-Signature="
    + b"0123456789abcdef"
    * 4
)


def url_head(query, headers=b""):
    return b"GET /bucket/key?%b HTTP/1.1\r\nhost: a\r\n%b\r\n" % (query, headers)


def presigned_of(head, query, **keyed):
    return templates.of(head, Parsed(head).headers, **keyed, query=query)


KEYED = {"path": b"/bucket/key", "key": b"key"}


@pytest.mark.parametrize("keyed", [{}, KEYED], ids=["path", "key"])
def test_the_time_and_the_signature_of_a_url_are_values(keyed):
    head = url_head(QUERY, b"amz-sdk-invocation-id: 1\r\naccept: a\r\n")
    template = presigned_of(head, QUERY, **keyed)
    named = template.named(template.parts(head))
    assert named[b"X-Amz-Date"] == b"20251121T160000Z"
    assert named[b"X-Amz-Signature"] == b"0123456789abcdef" * 4
    assert named[b"amz-sdk-invocation-id"] == b"1"
    assert head[slice(*template.query_span)] == QUERY
    other_query = QUERY.replace(b"20251121T16", b"20251122T17").replace(b"0123", b"3210")
    other = url_head(other_query, b"amz-sdk-invocation-id: 2\r\naccept: a\r\n")
    assert template.rest(other) == template.rest(head)
    assert other[slice(*template.query_span)] == other_query
    assert template.fill(Parsed(head).headers, template.parts(other)) == Parsed(other).headers
    if keyed:
        longer = with_key(other, b"a/longer-key")
        assert template.rest(longer) == template.rest(head)
        assert longer[slice(*template.query_span)] == other_query


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"&X-Amz-Date=20251121T160000Z", b""),
        (b"&X-Amz-Date=20251121T160000Z", b"&X-Amz-Date=20251121T160000Z" * 2),
        (b"20251121T160000Z", b"20251121T160000"),
        (b"20251121T160000Z", b"20251121T160000%5A"),
        (b"X-Amz-Date", b"X-Amz-Dat%65"),
        (b"X-Amz-Date", b"x-amz-date"),
        (b"&X-Amz-Signature=0", b"&X-Amz-Signature=G"),
        (b"&X-Amz-Signature=", b"&X-Amz-Signatur="),
    ],
)
def test_a_url_whose_time_or_signature_is_not_as_usual_has_no_template(old, new):
    query = QUERY.replace(old, new, 1)
    assert query != QUERY
    assert presigned_of(url_head(query), query) is None
    assert presigned_of(url_head(query), query, **KEYED) is None


def test_a_url_beside_a_signature_in_the_header_or_another_query_has_no_template():
    assert presigned_of(url_head(QUERY, b"authorization: a\r\n"), QUERY) is None
    assert presigned_of(url_head(QUERY), QUERY + b"&a=b") is None
    assert presigned_of(url_head(QUERY), QUERY.replace(b"3600", b"9600")) is None
    assert presigned_of(url_head(QUERY + b"#a"), QUERY) is None


# Heads whose key differs.

PLAIN_IN_PATH = string.ascii_letters + string.digits + "/_.~-"
ESCAPES = [f"%{byte:02X}" for byte in range(0x20, 0x41) if chr(byte) not in PLAIN_IN_PATH + "/"]
ESCAPES += ["%2F"]


def keyed_of(head, path=b"/bucket/key", key=b"key"):
    return templates.of(head, Parsed(head).headers, path, key)


def with_key(head, key):
    return head.replace(b"/bucket/key", b"/bucket/" + key, 1)


def test_the_key_is_the_last_of_the_values():
    template = keyed_of(FULL)
    assert template.names[-1] == templates.KEY
    assert template.parts(FULL) == (*template_of(FULL).parts(FULL), b"key")
    rest = template.rest(FULL)
    assert rest.startswith(b"GET /bucket/ HTTP/1.1\r\n")
    assert rest == template_of(FULL).rest(FULL).replace(b"key", b"", 1)
    assert template.rest(with_key(FULL, b"a/longer-key.txt")) == rest


@hypothesis.given(data=st.data())
def test_a_head_with_another_key_is_parsed_as_its_template_says(data):
    query = data.draw(st.sampled_from([b"", b"?x-id=GetObject", b"?a=/b?c"]))
    first = FULL.replace(b"/bucket/key", b"/bucket/key" + query, 1)
    template = keyed_of(first)
    spelled = st.lists(st.sampled_from([*PLAIN_IN_PATH, *ESCAPES]), min_size=1, max_size=60)
    key = "".join(data.draw(spelled)).encode()
    head = with_key(first, key)
    parts = template.parts(head)
    assert parts == (*template.parts(first)[:-1], key)
    assert template.rest(head) == template.rest(first)
    assert len(head) - templates.bytes_behind_key(head) == len(b"GET /bucket/" + key)
    parsed = Parsed(head)
    assert parsed.complete
    assert parsed.url == template.before_key(b"/bucket/key") + key + query
    assert template.fill(Parsed(first).headers, parts) == parsed.headers
    _, text = operations.locate(template.before_key(b"/bucket/key") + key, None)
    assert templates.text_of_key(key) == text
    assert templates.key_in_path(b"/bucket/" + key, text) == key
    assert sigv4.canonical_path(b"/" + key, double_encoded=False) == b"/" + key


def test_a_byte_that_could_end_a_path_or_is_escaped_is_no_part_of_a_key():
    template = keyed_of(FULL)
    for byte in range(256):
        for key in (b"%c" % byte, b"a%c" % byte, b"%ca" % byte, b"a%ca" % byte):
            is_plain = chr(byte) in PLAIN_IN_PATH
            assert (template.parts(with_key(FULL, key)) is not None) == is_plain, key


@pytest.mark.parametrize("is_upper", [True, False])
def test_an_escape_is_part_of_a_key_if_a_signature_spells_it_so(is_upper):
    template = keyed_of(FULL)
    for byte in range(256):
        escape = f"%{byte:02X}" if is_upper else f"%{byte:02x}"
        for key in (escape, f"a{escape}", f"{escape}a", f"a{escape}/a"):
            is_part = template.parts(with_key(FULL, key.encode())) is not None
            assert is_part == (escape in ESCAPES), key
    for key in ("%", "a%", "%3", "%3Da%", "%%3D", "%3D%3d"):
        assert template.parts(with_key(FULL, key.encode())) is None


def test_a_byte_that_could_end_a_value_is_no_part_beside_a_key():
    template = keyed_of(FULL)
    others = [byte for byte in range(256) if chr(byte) not in HARMLESS + "/_.~%"]
    for byte in others:
        for start, _ in template.spans:
            head = bytearray(FULL)
            head[start] = byte
            assert template.parts(bytes(head)) is None


@pytest.mark.parametrize("size_bytes", [0, limits.TEMPLATE_KEY_BYTES_MAX + 1])
def test_an_empty_key_and_a_long_one_are_no_parts(size_bytes):
    template = keyed_of(FULL)
    assert template.parts(with_key(FULL, b"k" * limits.TEMPLATE_KEY_BYTES_MAX)) is not None
    assert template.parts(with_key(FULL, b"k" * size_bytes)) is None


def test_a_path_without_a_bucket_is_a_key_whole():
    head = head_of(target="/folder/key")
    template = keyed_of(head, b"/folder/key", b"folder/key")
    assert template.before_key(b"/folder/key") == b"/"
    assert template.parts(head)[-1] == b"folder/key"
    assert template.rest(head) == template.rest(head.replace(b"/folder/key", b"/a//b", 1))
    assert not template.is_like(keyed_of(head_of()))


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (b"/bucket/kez", b"kez"),
        (b"/bucket/key", b"ket"),
        (b"/bucket/key", b"y"),
        (b"/bucket/key", b"/key"),
        (b"/bucket/ke", b"ke"),
        (b"/bucket/k%65y", b"k%65y"),
        (b"/bucket/k%3dy", b"k%3dy"),
    ],
)
def test_a_head_whose_path_is_spelled_otherwise_has_no_template_with_a_key(path, key):
    assert keyed_of(PLAIN, path, key) is None


def test_an_absolute_target_has_no_template_with_a_key():
    head = PLAIN.replace(b"GET /", b"GET http://127.0.0.1:5253/", 1)
    assert template_of(head) is not None
    assert keyed_of(head) is None
