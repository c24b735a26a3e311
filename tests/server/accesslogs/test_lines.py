"""Access records as lines of text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from server.accesslogs import lines

FIELDS = re.compile(r'"[^"]*"|\[[^\] ]* [^\] ]*\]|[^ ]+')
"""A field of a line, as Amazon's published expressions take it."""


def record(**fields: Any) -> lines.AccessRecord:
    whole: dict[str, Any] = {
        "owner_id": "a" * 64,
        "bucket": "photos",
        "at_ms": 1_549_411_238_000,
        "client_ip": "192.0.2.3",
        "requester": "arn:aws:iam::000000000000:user/ana",
        "request_id": "3E57427F3EXAMPLE",
        "operation": "REST.GET.OBJECT",
        "key": "cats/tom.jpg",
        "method": "GET",
        "raw_path": b"/photos/cats/tom.jpg",
        "query": b"",
        "status": 200,
        "error": "",
        "sent_bytes": 113,
        "object_size": 113,
        "total_ms": 7,
        "referer": "",
        "user_agent": "S3Console/0.4",
        "version_id": "",
        "host_id": "aGVsbG8=",
        "signature": "SigV4",
        "authentication": "AuthHeader",
        "host": "localhost:5253",
    }
    return lines.AccessRecord(**{**whole, **fields})


def test_a_line_has_the_fields_of_amazons_format_in_their_order() -> None:
    assert lines.format_line(record()) == (
        b"a" * 64 + b" photos [06/Feb/2019:00:00:38 +0000] 192.0.2.3 "
        b"arn:aws:iam::000000000000:user/ana 3E57427F3EXAMPLE REST.GET.OBJECT cats/tom.jpg "
        b'"GET /photos/cats/tom.jpg HTTP/1.1" 200 - 113 113 7 - "-" "S3Console/0.4" - aGVsbG8= '
        b"SigV4 - AuthHeader localhost:5253 - - - -\n"
    )


def test_unknown_fields_are_dashes() -> None:
    line = lines.format_line(
        record(requester="", key="", sent_bytes=0, object_size=None, signature="", host="")
    )
    fields = FIELDS.findall(line.decode())
    assert [fields[index] for index in (4, 7, 11, 12, 19, 22)] == ["-"] * 6


@pytest.mark.parametrize(
    "text", ['a" "b', "line\nline", "\x00\x1f\x7f", "é€", 'x" 200 - 0 - "', "[x] y\tz", "\\" * 3]
)
def test_no_text_of_a_client_forges_a_field_or_a_line(text: str) -> None:
    raw = text.encode("utf-8")
    line = lines.format_line(
        record(
            key=text,
            raw_path=b"/" + raw,
            query=raw,
            referer=text,
            user_agent=text,
            version_id=text,
            host=text,
            client_ip=text,
        )
    )
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert line.isascii()
    assert len(FIELDS.findall(line.decode())) == 27


@pytest.mark.parametrize(
    "name",
    [
        "X-Amz-Signature",
        "x-amz-signature",
        "X-Amz-Security-Token",
        "Signature",
        "X-Amz%2dSignature",
    ],
)
def test_what_signs_a_url_is_left_out(name: str) -> None:
    query = f"a=1&{name}=secret&b=2".encode()
    line = lines.format_line(record(query=query))
    assert b"secret" not in line
    assert f"?a=1&{name}=REDACTED&b=2 HTTP/1.1".encode() in line
    referer = f"http://localhost/docs/page?{query.decode()}"
    line = lines.format_line(record(referer=referer))
    assert b"secret" not in line
    assert f'"http://localhost/docs/page?a=1&{name}=REDACTED&b=2"'.encode() in line


def test_long_texts_are_cut() -> None:
    line = lines.format_line(record(raw_path=b"/" * 99_999, user_agent="u" * 99_999))
    assert len(line) < lines.URI_CHARACTERS_MAX + lines.TEXT_CHARACTERS_MAX + 1_000


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<?xml?><Error><Code>NoSuchKey</Code></Error>", "NoSuchKey"),
        (
            b'{"error":{"message":"m","type":"NoSuchTableException","code":404}}',
            "NoSuchTableException",
        ),
        (b"", ""),
        (b"<Code>two words</Code>", ""),
    ],
)
def test_the_code_of_an_error_document_is_found(body: bytes, code: str) -> None:
    assert lines.find_code(body) == code
