"""A pytest plugin for a checkout of ceph/s3-tests: isolates its tests and records their outcomes.

Every test gets a bucket prefix of its own, begins without the buckets of the tests before it, and
is not failed by one of them that cannot be removed, nor by the clean-up of IAM, which asks for
operations that no test of the two files needs. Runs in the suite's own environment, which has
nothing of Boathouse: it imports none of its modules. The outcomes go to the JSON file that
S3TESTS_OUTCOMES names.

It repairs one fault of the suite: `test_headers` changes headers in botocore's event before-call,
and botocore signs the request, sets its date and its length after that event. So a removed
Authorization comes back, a changed one is replaced, and the test sends a valid request; the suite
says so itself ("once we have learned how to remove the authorization header"). Changes of those
headers are made in the event before-send here, as the tests mean them: the request arrives without
the header, or with the changed one. Nothing else of these tests is changed.
"""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import os
import re
import urllib.parse
from pathlib import Path
from typing import Any

LEFT_OUT = frozenset({"encryption", "bucket logging", "cloud tier"})
"""Categories of features that are outside of what a lakehouse's store offers."""

CATEGORY_OF_MARKER = {
    "encryption": "encryption",
    "sse_s3": "encryption",
    "bucket_logging": "bucket logging",
    "bucket_logging_cleanup": "bucket logging",
    "cloud_transition": "cloud tier",
    "cloud_restore": "cloud tier",
    "conditional_write": "conditional write",
    "checksum": "checksum",
}

CATEGORY_OF_NAME = (
    ("bucket logging", "logging"),
    ("cloud tier", "cloud|restore"),
    ("encryption", "encrypt|sse_|_enc$|_enc_|kms|s3_noenc"),
    ("POST object", "post_object"),
    ("object lock", "object_lock"),
    ("lifecycle", "lifecycle"),
    (
        "bucket policy",
        "policy|existing_tag|put_obj_acl|put_obj_grant|put_obj_request_obj_tag",
    ),
    ("public access block", "block_public|public_block|ignore_public|restrict_public"),
    ("ownership controls", "ownership"),
    ("CORS", "cors"),
    ("tagging", "tag"),
    ("versioning", "version|delete_marker"),
    ("checksum", "checksum|crc|sha"),
    (
        "conditional write",
        "put_object_if|delete_object.*if|conditional|if_?none_?match_overwrite|_if(non)?match"
        "|put_current_object|put_object_current",
    ),
    ("conditional GET", "get_object_if"),
    ("multipart", "multipart"),
    ("copy", "copy"),
    ("ranged GET", "ranged"),
    ("atomic", "atomic|concurrent"),
    ("ACL", "acl|grant|access"),
    ("presigned, raw, anonymous", "raw_|presigned|anon|x_amz_expires|authenticated"),
    ("listing", "bucket_list|list_objects|buckets_list|basic_key_count"),
    ("bucket", "bucket"),
    ("object", ""),
)
"""The first pattern that a test's name contains decides."""

SET_AFTER_BEFORE_CALL = {
    "Authorization": ("Authorization",),
    "Content-Length": ("Content-Length",),
    # With signature version 2 botocore dates a request by Date, without x-amz-date.
    "x-amz-date": ("x-amz-date", "Date"),
}
"""Headers that botocore sets after the event before-call -> the headers that removing one means."""

outcomes: dict[str, dict[str, Any]] = {}


def category_of(nodeid: str, name: str, markers: set[str]) -> str:
    """Return the category of a test: by its file, then its markers, then its name."""
    if "test_headers" in nodeid:
        return "header auth"
    for marker, category in CATEGORY_OF_MARKER.items():
        if marker in markers:
            return category
    return next(category for category, pattern in CATEGORY_OF_NAME if re.search(pattern, name))


def counts(outcome: dict[str, Any]) -> bool:
    """Whether a test's outcome counts: it holds on AWS, and its feature is not left out."""
    return not outcome["fails_on_aws"] and outcome["category"] not in LEFT_OUT


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Record every test as not run, and isolate the suite's set-up and clean-up."""
    import s3tests.functional as suite
    from s3tests.functional import iam

    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        outcomes[item.nodeid] = {
            "category": category_of(item.nodeid, item.name, markers),
            "fails_on_aws": "fails_on_aws" in markers,
            "outcome": "not run",
        }

    remove_buckets = suite.nuke_prefixed_buckets

    def remove_buckets_if_possible(prefix: str, client: Any = None) -> None:
        del prefix  # some tests name a bucket without it; the server is the suite's alone
        try:
            remove_buckets(prefix="", client=client)
        except Exception as error:  # noqa: BLE001 - whatever the suite's clients raise
            print("left behind:", error)

    def start_with_a_prefix_of_its_own() -> None:
        suite.prefix = suite.choose_bucket_prefix("bh-{random}-")
        suite.bucket_counter = itertools.count(1)

    def if_possible(remove: Any) -> Any:
        @functools.wraps(remove)
        def remove_if_possible(*arguments: Any, **named: Any) -> None:
            try:
                remove(*arguments, **named)
            except Exception as error:  # noqa: BLE001 - whatever the suite's clients raise
                print("left behind:", error)

        return remove_if_possible

    for name in [name for name in vars(iam) if name.startswith("nuke_")]:
        setattr(iam, name, if_possible(getattr(iam, name)))
    suite.nuke_prefixed_buckets = remove_buckets_if_possible
    suite.setup = start_with_a_prefix_of_its_own
    for module in {item.module for item in items if "test_headers" in item.nodeid}:
        change_headers_before_they_are_sent(module)


def change_headers_before_they_are_sent(tests: Any) -> None:
    """Let the tests of bad headers change those that botocore sets after their own event."""
    plain_add = {
        name: getattr(tests, name)
        for name in ("_add_header_create_bad_object", "_add_header_create_bad_bucket")
    }
    plain_remove = {
        name: getattr(tests, name)
        for name in ("_remove_header_create_bad_object", "_remove_header_create_bad_bucket")
    }

    def add(name: str, headers: Any = None, client: Any = None) -> Any:
        if not headers or "Authorization" not in headers:
            return plain_add[name](headers, client)
        client = client or tests.get_client()

        def replace(request: Any, **_: Any) -> None:
            for header, value in headers.items():
                request.headers.pop(header, None)
                request.headers[header] = value

        client.meta.events.register(f"before-send.s3.{operation_of(name)}", replace)
        return plain_add[name]({}, client)

    def remove(name: str, header: str, client: Any = None) -> Any:
        if header not in SET_AFTER_BEFORE_CALL:
            return plain_remove[name](header, client)
        client = client or tests.get_client()

        def send_without(request: Any, **_: Any) -> Any:
            for each in SET_AFTER_BEFORE_CALL[header]:
                request.headers.pop(each, None)
            # urllib3 would compute the length again.
            return sent_exactly(request) if header == "Content-Length" else None

        client.meta.events.register(f"before-send.s3.{operation_of(name)}", send_without)
        return plain_remove[name]("no such header", client)

    for name in plain_add:
        setattr(tests, name, functools.partial(add, name))
    for name in plain_remove:
        setattr(tests, name, functools.partial(remove, name))


def operation_of(name: str) -> str:
    """Return the operation that one of the suite's helpers sends."""
    return "PutObject" if name.endswith("object") else "CreateBucket"


def sent_exactly(request: Any) -> Any:
    """Send a prepared request with its own headers alone; return botocore's response."""
    import botocore.awsrequest

    url = urllib.parse.urlsplit(request.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=20)
    target = url.path + (f"?{url.query}" if url.query else "")
    connection.putrequest(request.method, target, skip_accept_encoding=True)
    for header, value in request.headers.items():
        if header.lower() not in ("host", "expect"):
            connection.putheader(header, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()

    class Raw:
        def stream(self, **_: Any) -> Any:
            yield body

    headers = botocore.awsrequest.HeadersDict(answer.getheaders())
    return botocore.awsrequest.AWSResponse(request.url, answer.status, headers, Raw())


def pytest_runtest_logreport(report: Any) -> None:
    """Record a test's outcome: that of its call, or of a set-up or clean-up that did not pass."""
    outcome = outcomes[report.nodeid]
    if report.when != "call" and report.outcome == "passed":
        return
    if outcome["outcome"] in ("not run", "passed"):
        outcome["outcome"] = report.outcome
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            outcome["why"] = str(getattr(crash, "message", report.longrepr))[:300]


def pytest_sessionfinish(session: Any) -> None:
    """Write the outcomes."""
    del session
    Path(os.environ["S3TESTS_OUTCOMES"]).write_text(json.dumps(outcomes, indent=1, sort_keys=True))
