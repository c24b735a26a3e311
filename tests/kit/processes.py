"""What other processes of this machine do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def cpu_seconds(process_id: int) -> float:
    """How long a process has computed; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return _cpu_seconds_of_ps(process_id)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_seconds_of_ps(process_id: int) -> float:
    command = ["ps", "-o", "cputime=", "-p", str(process_id)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    hours, minutes, rest = ("0:0:" + (shown or "0")).replace("-", ":").split(":")[-3:]
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)
