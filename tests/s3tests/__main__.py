"""`make s3-tests S3TESTS=FOLDER`: run a checkout of ceph/s3-tests; its failures are listed.

The checkout is brought along (`git clone https://github.com/ceph/s3-tests`); nothing of it belongs
to this repository. A server is started for the run, with the three users that the suite needs. The
score counts the tests that hold on AWS and are about nothing left out (`plugin.LEFT_OUT`).
`failing.txt` lists those of them that fail, below the reason. A test that fails and is not listed
fails the run, and so does one that is listed and passes.
"""

from __future__ import annotations

import argparse
import collections
import configparser
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.kit import environments
from tests.kit import server as server_kit
from tests.s3tests import plugin

LIST: Final = Path(__file__).with_name("failing.txt")
FILES: Final = ("s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py")
TEST_TIMEOUT_SECONDS: Final = 300
"""For what hangs. Some tests are slow themselves: one draws eight million letters at random."""
ALL_OF_S3: Final = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """One of the suite's users, each alone in an account."""

    name: str
    account: str
    access_key: str
    secret_key: str
    canonical_id: str


def main() -> int:
    parser = argparse.ArgumentParser(prog="make s3-tests", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a checkout of ceph/s3-tests")
    parser.add_argument(
        "--only", default="", help="run the tests that this pytest -k expression selects"
    )
    parser.add_argument(
        "--day-seconds",
        type=int,
        default=0,
        help="shorten a day of lifecycle rules, for tests that wait for it; others need a real one",
    )
    parser.add_argument("--update", action="store_true", help="write the list anew")
    parser.add_argument("--json", type=Path, help="where the outcomes go")
    options = parser.parse_args()
    if options.checkout is None or not (options.checkout / FILES[0]).is_file():
        print(
            "make s3-tests needs S3TESTS=FOLDER, a checkout of https://github.com/ceph/s3-tests",
            file=sys.stderr,
        )
        return 2
    users = [
        User(
            name=name,
            account=f"{number:012}",
            access_key="AK" + secrets.token_hex(9).upper(),
            secret_key=secrets.token_hex(20),
            canonical_id=secrets.token_hex(32),
        )
        for number, name in enumerate(("main", "alt", "tenant"), start=1)
    ]
    with tempfile.TemporaryDirectory(prefix="boathouse-s3-tests-") as name:
        folder = Path(name)
        (folder / "mini.toml").write_text(_settings(users))
        flags = ["--config", str(folder / "mini.toml")]
        if options.day_seconds:
            flags += ["--lifecycle-day-seconds", str(options.day_seconds)]
        server = server_kit.start(folder / "data", *flags)
        try:
            with (folder / "s3tests.conf").open("w") as file:
                _configuration(server, users, options.day_seconds or 1).write(file)
            with server_kit.ends_with_us(server):
                outcomes = _run(options.checkout, options.only, folder)
        finally:
            server.stop()
    if options.json is not None:
        options.json.write_text(json.dumps(outcomes, indent=1, sort_keys=True))
    _print_score(outcomes)
    if options.update:
        _write_list(outcomes, _read_list(), keep_others=bool(options.only))
        return 0
    return _judge(outcomes, _read_list())


def _settings(users: list[User]) -> str:
    """Return the server's mini.toml."""
    return "sigv2_header = true\n\n" + "\n".join(
        f"""[[users]]
name = "{user.name}"
display_name = "{user.name}"
email = "{user.name}@example.com"
canonical_id = "{user.canonical_id}"
access_key = "{user.access_key}"
secret_key = "{user.secret_key}"
account = "{user.account}"
policies = ['{ALL_OF_S3}']
"""
        for user in users
    )


def _run(checkout: Path, only: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Run the suite; return the outcome of every test that was selected."""
    conf, results = folder / "s3tests.conf", folder / "outcomes.json"
    command = [str(environments.python("s3tests")), "-m", "pytest", "-q", "--tb=short"]
    command += ["-p", "plugin", "-p", "no:cacheprovider", f"--timeout={TEST_TIMEOUT_SECONDS}"]
    # Within a fixture's clean-up the end by a time-out would end the whole run.
    command += ["-o", "timeout_func_only=true"]
    command += [*(["-k", only] if only else []), *FILES]
    subprocess.run(
        command,
        cwd=checkout,
        env={
            **os.environ,
            "S3TEST_CONF": str(conf),
            "S3TESTS_OUTCOMES": str(results),
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            # A retry would hide an answer of 500, and cost a minute for each.
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_RETRY_MODE": "standard",
        },
        check=False,
    )
    outcomes: dict[str, dict[str, Any]] = json.loads(results.read_text())
    return {
        nodeid.removeprefix("s3tests/functional/"): outcome
        for nodeid, outcome in outcomes.items()
        if not (only and outcome["outcome"] == "not run")
    }


def _configuration(
    server: server_kit.Running, users: list[User], day_seconds: int
) -> configparser.ConfigParser:
    """Return the suite's configuration. It wants the sections of services that are not tested."""
    parser = configparser.ConfigParser()
    parser["DEFAULT"] = {
        "host": server.host,
        "port": str(server.port),
        "is_secure": "False",
        "ssl_verify": "False",
    }
    parser["fixtures"] = {
        "bucket prefix": "bh-{random}-",
        "iam name prefix": "s3-tests-",
        "iam path prefix": "/s3-tests/",
    }
    sections = [f"s3 {user.name}" for user in users]
    # No test of the two files signs as the first and the last user of IAM.
    sections += ["iam", "iam root", "iam alt root"]
    for section, user in zip(sections, [*users, *users], strict=True):
        parser[section] = {
            "access_key": user.access_key,
            "secret_key": user.secret_key,
            "user_id": user.canonical_id,
            "display_name": user.name,
            "email": f"{user.name}@example.com",
        }
    parser["iam root"]["access_key"] = server.access_key
    parser["iam root"]["secret_key"] = server.secret_key
    parser["s3 main"]["api_name"] = "eu-west-1"
    parser["s3 main"]["storage_classes"] = "STANDARD_IA, INTELLIGENT_TIERING"
    parser["s3 main"]["lc_debug_interval"] = str(day_seconds)
    parser["s3 tenant"]["tenant"] = "tenant"
    names = ("token", "aud", "sub", "azp", "user_token", "thumbprint", "KC_REALM")
    parser["webidentity"] = dict.fromkeys(names, "none")
    return parser


def _print_score(outcomes: Mapping[str, Mapping[str, Any]]) -> None:
    passed: collections.Counter[str] = collections.Counter()
    counted: collections.Counter[str] = collections.Counter()
    for outcome in outcomes.values():
        if plugin.counts(dict(outcome)):
            counted[outcome["category"]] += 1
            passed[outcome["category"]] += outcome["outcome"] == "passed"
    for category in sorted(counted):
        print(f"{category:28} {passed[category]:4} / {counted[category]}")
    print(f"S3TESTS {passed.total()}/{counted.total()}")


def _read_list() -> dict[str, str]:
    """Return the listed tests and why each fails."""
    reasons, reason = {}, ""
    for line in LIST.read_text().splitlines() if LIST.exists() else ():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            reasons[line] = reason
    return reasons


def _write_list(
    outcomes: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str], *, keep_others: bool
) -> None:
    """Write the tests that fail, each below its reason of before, or its category's name.

    keep_others: whether listed tests that did not run stay listed.
    """
    by_reason = collections.defaultdict(list)
    if keep_others:
        for nodeid, reason in reasons.items():
            if nodeid not in outcomes:
                by_reason[reason].append(nodeid)
    for nodeid, outcome in sorted(outcomes.items()):
        if plugin.counts(dict(outcome)) and outcome["outcome"] != "passed":
            by_reason[reasons.get(nodeid, f"{outcome['category']}: not built")].append(nodeid)
    LIST.write_text(
        "\n\n".join(
            "\n".join((f"# {each}", *sorted(by_reason[each]))) for each in sorted(by_reason)
        )
        + "\n"
    )


def _judge(outcomes: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str]) -> int:
    """Compare with the list; return the exit code."""
    wrong = 0
    for nodeid, outcome in sorted(outcomes.items()):
        if plugin.counts(dict(outcome)) and (outcome["outcome"] == "passed") == (nodeid in reasons):
            wrong += 1
            if nodeid in reasons:
                print(f"passes, and is listed: {nodeid} ({reasons[nodeid]})")
            else:
                print(f"fails, and is not listed: {nodeid}: {outcome.get('why', '')[:120]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
