"""What becomes of a started server when the process that started it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.kit import server as server_kit

WAIT_SECONDS_MAX = 120
STARTS = """
import sys
from pathlib import Path
from tests.kit import server as server_kit

running = server_kit.start(Path(sys.argv[1]))
with server_kit.ends_with_us(running):
    print(running.url, flush=True)
    sys.stdin.read()
running.stop()
"""


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS, str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=server_kit.ROOT,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        url = starter.stdout.readline().strip()
        assert server_kit.get(f"{url}/_health")[0] == 200
        starter.kill()
    ends_at = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < ends_at:
        try:
            server_kit.get(f"{url}/_health")
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError("the server still answers")
