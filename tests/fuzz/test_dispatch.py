"""Any path, host and scope has exactly one face, and no spelling slips past the table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server import dispatch
from tests.kit import examples

segments = st.sampled_from(
    ["iceberg", "session", "queries", "monitoring", "telemetry", "_api", "_console", "_health",
     "_metrics", "buckets", "iceberg%2F", "%69ceberg", "", ".", "..", "sessions-eu", "é"]
)  # fmt: skip
paths = st.lists(segments | st.text(max_size=5), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
hosts = st.sampled_from(
    [
        "",
        "localhost",
        "127.0.0.1:5253",
        "b1x.localhost",
        "b1x.lake.example",
        "lake.example",
        "[::1]",
    ]
) | st.text(max_size=12)
services = st.none() | st.sampled_from(["s3", "s3tables", "sts", "iam", "glue", "x"])


@examples.at_most(500)
@given(paths, hosts, services, st.sampled_from([None, "lake.example"]))
def test_first_row_that_matches_decides(path, host, service, domain):
    """The table of the design, written a second time as the sentence it is."""
    raw = path.encode()
    face = dispatch.face_of(raw, host, service, domain=domain)
    first = raw.split(b"/")[1]
    bucket = dispatch.bucket_of_host(host, domain)
    if service == "s3" or bucket is not None:
        expected = "s3"
    elif service == "s3tables" and first != b"iceberg":
        expected = "s3tables"
    elif service in ("sts", "iam"):
        expected = service
    elif first == b"iceberg":
        expected = "iceberg"
    elif first in (b"session", b"queries", b"monitoring", b"telemetry"):
        expected = "snowflake"
    elif first in (b"_console", b"_api", b"_health", b"_metrics"):
        expected = "native"
    else:
        expected = "s3"
    assert face == expected
    assert face in dispatch.FACES


@examples.at_most(300)
@given(
    st.none()
    | st.text(max_size=40)
    | st.text(max_size=40).map("AWS4-HMAC-SHA256 Credential={}".format),
    st.binary(max_size=40) | st.binary(max_size=40).map(lambda b: b"X-Amz-Credential=" + b),
)
def test_service_of_never_fails(authorization, query):
    service = dispatch.service_of(authorization, query)
    assert service is None or "/" not in service


@examples.at_most(300)
@given(st.text(max_size=70), st.none() | st.text(min_size=1, max_size=10))
def test_bucket_of_host_is_a_name_without_port_or_domain(host, domain):
    bucket = dispatch.bucket_of_host(host, domain)
    if bucket is not None:
        assert 3 <= len(bucket) <= 63
        assert ":" not in bucket
        assert bucket == bucket.lower()
