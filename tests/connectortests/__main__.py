"""`make connector-tests CONNECTOR=FOLDER`: run the Python connector's own integration tests.

The checkout is brought along (`git clone https://github.com/snowflakedb/snowflake-connector-python`,
at the tag of the release that the requirements name);
nothing of it belongs to this repository. Its tests run with the connector of
`tests/kit/requirements/connectortests.txt` against a server that is started for the run. The score
counts the tests of `test/integ` that neither skip themselves nor are left out (`LEFT_OUT`).
`failing.txt` lists those of them that fail, below the reason. A reason that begins with `CLOUD` is
one of tests that only Snowflake's own service can pass: they are not counted. A test that fails and
is not listed fails the run, and so does one that is listed and passes.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit import environments
from tests.kit import server as server_kit

LIST: Final = Path(__file__).with_name("failing.txt")
FOLDER: Final = "test/integ"
LEFT_OUT: Final[Mapping[str, str]] = {
    "aio_it": "the asynchronous connector, which is not installed; it sends the same requests",
    "lambda_it": "runs in AWS Lambda",
    "sso_it": "needs a browser and an identity provider",
    "test_connection.py": "names hosts of Snowflake's accounts",
    "test_crl.py": "needs certificate revocation lists of the Internet",
    "test_large_put.py": "measures transfers of gigabytes",
    "test_proxies.py": "needs a proxy, mitmproxy",
    "test_put_get_with_aws_token.py": "needs a bucket of an account at AWS",
    "test_put_get_with_azure_token.py": "needs an account at Azure",
    "test_put_get_with_gcp_account.py": "needs an account at Google",
    "test_vendored_urllib.py": "needs httpbin.org",
}
"""Modules and folders that are not run -> why."""
CLOUD: Final = "needs a cloud account"
TEST_TIMEOUT_SECONDS: Final = 60
ACCOUNT: Final = "sfctest0"
"""With an account of this name the suite sets no parameters of Snowflake's own test systems."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make connector-tests", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a checkout of the connector")
    parser.add_argument(
        "--only", default="", help="run the tests that this pytest -k expression selects"
    )
    parser.add_argument("--processes", type=int, default=2, help="how many processes run tests")
    parser.add_argument("--update", action="store_true", help="write the list anew")
    parser.add_argument("--json", type=Path, help="where the outcomes go")
    options = parser.parse_args()
    if options.checkout is None or not (options.checkout / FOLDER).is_dir():
        print(
            "make connector-tests needs CONNECTOR=FOLDER, a checkout of"
            " https://github.com/snowflakedb/snowflake-connector-python",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="boathouse-connector-tests-") as name:
        folder = Path(name)
        server = server_kit.start(folder / "data")
        try:
            outcomes = _run(server, options.checkout, options.only, options.processes, folder)
        finally:
            server.stop()
    if options.json is not None:
        options.json.write_text(json.dumps(outcomes, indent=1, sort_keys=True))
    _print_score(outcomes, _read_list())
    if options.update:
        _write_list(outcomes, _read_list(), keep_others=bool(options.only))
        return 0
    return _judge(outcomes, _read_list())


def _run(
    server: server_kit.Running, checkout: Path, only: str, processes: int, folder: Path
) -> dict[str, dict[str, Any]]:
    """Run the suite; return the outcome of every test that was run."""
    results, home = folder / "outcomes.json", folder / "home"
    home.mkdir()
    command = [str(environments.python("connectortests")), "-m", "pytest", "-q", "--tb=short"]
    command += ["-p", "plugin", "-p", "no:cacheprovider", "-p", "no:rerunfailures"]
    command += ["-o", "addopts=", "-o", "timeout_func_only=true", "-o", f"cache_dir={folder}"]
    command += [f"--timeout={TEST_TIMEOUT_SECONDS}", f"--basetemp={folder / 'tmp'}"]
    command += ["-n", str(processes)] if processes > 1 else []
    command += [f"--ignore={FOLDER}/{left_out}" for left_out in LEFT_OUT]
    command += [*(["-k", only] if only else []), FOLDER]
    parameters = {
        "account": ACCOUNT,
        "user": server.access_key,
        "password": server.secret_key,
        "database": "lake",
        "schema": "public",
        "warehouse": "local",
        "protocol": "http",
        "host": server.host,
        "port": str(server.port),
    }
    subprocess.run(
        command,
        cwd=checkout,
        env={
            **server_kit.client_environment(),
            "CONNECTORTESTS_SERVER": json.dumps(parameters),
            "CONNECTORTESTS_OUTCOMES": str(results),
            "USE_PASSWORD": "true",
            "HOME": str(home),
            "CLIENT_LOG_DIR_PATH_DOCKER": str(home / "logs"),
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        check=False,
    )
    outcomes: dict[str, dict[str, Any]] = json.loads(results.read_text())
    return {
        nodeid.removeprefix(f"{FOLDER}/"): outcome
        for nodeid, outcome in outcomes.items()
        if outcome["outcome"] in ("passed", "failed")
    }


def _print_score(outcomes: Mapping[str, Mapping[str, Any]], reasons: Mapping[str, str]) -> None:
    passed: collections.Counter[str] = collections.Counter()
    counted: collections.Counter[str] = collections.Counter()
    of_cloud = 0
    for nodeid, outcome in outcomes.items():
        if outcome["outcome"] == "failed" and reasons.get(nodeid, "").startswith(CLOUD):
            of_cloud += 1
            continue
        module = nodeid.partition("::")[0]
        counted[module] += 1
        passed[module] += outcome["outcome"] == "passed"
    for module in sorted(counted):
        print(f"{module:48} {passed[module]:4} / {counted[module]}")
    print(f"CONNECTOR {passed.total()}/{counted.total()}, and {of_cloud} {CLOUD}")


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
    """Write the tests that fail, each below its reason of before, or what it says.

    keep_others: whether listed tests that did not run stay listed.
    """
    by_reason = collections.defaultdict(list)
    if keep_others:
        for nodeid, reason in reasons.items():
            if nodeid not in outcomes:
                by_reason[reason].append(nodeid)
    for nodeid, outcome in outcomes.items():
        if outcome["outcome"] == "failed":
            said = " ".join(outcome.get("why", "").split())[:100]
            by_reason[reasons.get(nodeid, f"not looked at: {said}")].append(nodeid)
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
        if (outcome["outcome"] == "passed") == (nodeid in reasons):
            wrong += 1
            if nodeid in reasons:
                print(f"passes, and is listed: {nodeid} ({reasons[nodeid]})")
            else:
                print(f"fails, and is not listed: {nodeid}: {outcome.get('why', '')[:120]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
