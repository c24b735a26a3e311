"""A pytest plugin for a checkout of ceph/s3-tests: isolates its tests and records their outcomes.

Every test gets a bucket prefix of its own, begins without the buckets of the tests before it, and
is not failed by one of them that cannot be removed. Runs in the suite's own environment, which has
nothing of Boathouse: it imports none of its modules. The outcomes go to the JSON file that
S3TESTS_OUTCOMES names.
"""

from __future__ import annotations

import itertools
import json
import os
import re
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

    suite.nuke_prefixed_buckets = remove_buckets_if_possible
    suite.setup = start_with_a_prefix_of_its_own


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
