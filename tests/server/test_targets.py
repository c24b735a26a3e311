"""The four forms of a request's target, and the Host header (RFC 9112, section 3.2)."""

from __future__ import annotations

import socket

import pytest

from server import errors, targets
from tests.kit import waits


@pytest.mark.parametrize(
    ("method", "target", "authority", "rest"),
    [
        (b"GET", b"http://a.b/c?d=e", b"a.b", b"/c?d=e"),
        (b"GET", b"HTTPS://a.b:443/c", b"a.b:443", b"/c"),
        (b"GET", b"http://[::1]:80/c//d", b"[::1]:80", b"/c//d"),
        (b"GET", b"http://a.b", b"a.b", b"/"),
        (b"GET", b"http://a.b?list", b"a.b", b"/?list"),
        (b"OPTIONS", b"http://a.b", b"a.b", b"*"),
        (b"OPTIONS", b"*", None, b"*"),
        (b"GET", b"*", None, b"*"),
        (b"CONNECT", b"a.b:80", None, b"*"),
        (b"CONNECT", b"/", None, b"*"),
    ],
)
def test_a_target_of_another_form_becomes_an_origin_and_a_path(method, target, authority, rest):
    assert targets.parse(method, target) == (authority, rest)


@pytest.mark.parametrize(
    "target",
    [
        b"ftp://a/b",
        b"http:///b",
        b"http://u:p@a/b",
        b"http://a b/c",
        b"a.b:80",
        b"http://a:x/",
        b"",
    ],
)
def test_a_target_of_no_form_is_malformed(target):
    with pytest.raises(errors.MalformedRequest):
        targets.parse(b"GET", target)


@pytest.mark.parametrize(
    "host", [b"a", b"a.b:80", b"127.0.0.1:5253", b"[::1]", b"[::1]:80", b"", b"a_b.c", b"a:"]
)
def test_a_host_is_a_name_or_an_address_with_or_without_port(host):
    targets.check_host(host)


@pytest.mark.parametrize(
    "host", [b"a,b", b"a/b", b"u@a", b"a b", b"a:b", b"[::1", b"a\x80", b"a:80:80", b"a?b", b"a#b"]
)
def test_what_is_no_host_is_malformed(host):
    with pytest.raises(errors.MalformedRequest):
        targets.check_host(host)


def answers(server, request: bytes) -> bytes:
    """Send a request that ends its connection; return all that came back."""
    with socket.create_connection((server.host, server.port), timeout=waits.WAIT_SECONDS) as client:
        client.sendall(request)
        came = b""
        while data := client.recv(65536):
            came += data
        return came


HOST = b"Host: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize("origin", [b"http://127.0.0.1", b"https://other:1", b"HTTP://[::1]:80"])
def test_an_absolute_target_is_answered_like_its_path(server, origin):
    came = answers(server, b"GET " + origin + b"/_health HTTP/1.1\r\n" + HOST + CLOSE)
    assert came.startswith(b"HTTP/1.1 200 ")
    assert b'"status":"ok"' in came


@pytest.mark.parametrize("rest", [b"", b"?list-type=2"])
def test_an_absolute_target_without_a_path_is_the_root(server, rest):
    came = answers(server, b"GET http://127.0.0.1" + rest + b" HTTP/1.1\r\n" + HOST + CLOSE)
    assert came.startswith(b"HTTP/1.1 403 ")
    assert b"<Code>AccessDenied</Code>" in came


def test_the_origin_of_an_absolute_target_goes_before_the_host_header(server):
    request = b"GET http://some-bucket.localhost/key HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    came = answers(server, request + CLOSE)
    assert b"<BucketName>some-bucket</BucketName><Resource>/key</Resource>" in came


def test_connect_is_refused_with_a_sentence_and_the_connection_ends(server):
    came = answers(server, b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n")
    head, _, body = came.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: " in head
    assert b"\r\nconnection: close" in head
    assert b"CONNECT" in body


def test_options_of_the_server_as_a_whole_lists_its_methods(server):
    came = answers(server, b"OPTIONS * HTTP/1.1\r\n" + HOST + CLOSE)
    head, _, body = came.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nallow: GET, HEAD, " in head
    assert body == b""


def test_a_star_is_for_options_alone(server):
    assert answers(server, b"GET * HTTP/1.1\r\n" + HOST + CLOSE).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "hosts", [b"", b"Host: a\r\nHost: a\r\n", b"Host: a\r\nHost: b\r\n", b"Host: a/b\r\n"]
)
@pytest.mark.parametrize("path", [b"/_health", b"/bucket/key", b"/iceberg/v1/config"])
def test_a_request_without_exactly_one_host_is_malformed(server, hosts, path):
    came = answers(server, b"GET " + path + b" HTTP/1.1\r\n" + hosts + CLOSE)
    assert came.startswith(b"HTTP/1.1 400 ")
    assert b"Host" in came.partition(b"\r\n\r\n")[2]


def test_version_1_0_needs_no_host(server):
    assert answers(server, b"GET /_health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9"])
def test_another_version_is_refused(server, version):
    assert answers(server, b"GET /_health " + version + b"\r\n" + HOST + CLOSE).startswith(
        b"HTTP/1.1 400 "
    )


@pytest.mark.parametrize(
    "target", [b"ftp://a/b", b"http://u:p@a/b", b"http:///b", b"/\xc3\xa9", b"/a?\xff"]
)
def test_a_malformed_target_is_answered(server, target):
    alone = answers(server, b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    assert alone.startswith(b"HTTP/1.1 400 ")
