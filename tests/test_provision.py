"""What prepares the environment: it does a thing once, in order, and says what went wrong."""

from __future__ import annotations

import ast
import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import provision

ROOT = Path(__file__).resolve().parents[1]
VERSION = collections.namedtuple("VERSION", "major minor micro releaselevel serial")


class Commands:
    """Stands in for subprocess.run: records commands, answers with the exit codes it was given."""

    def __init__(self, venv: Path) -> None:
        self.venv = venv
        self.recorded: list[list[str]] = []
        self.codes: dict[str, int] = {}

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.recorded.append(command)
        word = command[2]
        if word == "venv":
            (self.venv / "bin").mkdir(parents=True, exist_ok=True)
            (self.venv / "bin" / "python").touch()
            if not self.codes.get(word):
                (self.venv / "bin" / "pip").touch()
        return subprocess.CompletedProcess(command, self.codes.get(word, 0), "", "")

    @property
    def words(self) -> list[str]:
        return [command[2] for command in self.recorded]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    recorder = Commands(tmp_path / ".venv")
    monkeypatch.setattr(provision, "VENV", recorder.venv)
    monkeypatch.setattr(provision.subprocess, "run", recorder.run)
    monkeypatch.setattr(provision, "has_java", lambda: True)
    return recorder


def test_first_run_makes_the_environment_and_installs_by_the_pins(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert provision.main([]) == 0
    assert commands.words == ["venv", "pip"]
    install = commands.recorded[1]
    assert install[0] == str(commands.venv / "bin" / "python")
    assert install[install.index("--constraint") + 1] == str(ROOT / "constraints.txt")
    assert {"lmdb", "msgspec", "uvicorn[standard]"} <= set(install)
    assert not {"pyspark", "pytest"} & set(install)
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "Creating the virtual environment .venv ..."
    assert second == "Installing the server's packages, about 150 MB to fetch ..."


def test_second_run_does_nothing(commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    assert provision.main(["server", "test"]) == 0
    commands.recorded.clear()
    capsys.readouterr()
    assert provision.main(["server", "test"]) == 0
    assert commands.recorded == []
    assert capsys.readouterr() == ("", "")


def test_changed_pins_are_installed_again(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert provision.main(["server"]) == 0
    changed = tmp_path / "constraints.txt"
    changed.write_text((ROOT / "constraints.txt").read_text() + "\n# changed")
    monkeypatch.setattr(provision, "CONSTRAINTS", changed)
    commands.recorded.clear()
    assert provision.main(["server"]) == 0
    assert commands.words == ["pip"]


def test_groups_are_installed_in_the_order_of_the_arguments(commands: Commands) -> None:
    assert provision.main(["server", "test", "spark"]) == 0
    assert commands.words == ["venv", "pip", "pip", "pip"]
    assert [("lmdb" in c, "pytest" in c, "pyspark" in c) for c in commands.recorded[1:]] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]


def test_java_comes_along_only_where_the_system_has_none(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert provision.main(["spark"]) == 0
    assert provision.JAVA_PACKAGE not in commands.recorded[-1]
    monkeypatch.setattr(provision, "has_java", lambda: False)
    assert provision.main(["spark"]) == 0
    assert provision.JAVA_PACKAGE in commands.recorded[-1]
    assert "and a Java runtime (34 MB) ..." in capsys.readouterr().out


def test_a_failed_installation_says_so_and_is_tried_again(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.codes["pip"] = 1
    assert provision.main(["server"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("Installing server failed (see pip's own message above).")
    assert said.count("\n") == 1
    commands.codes["pip"] = 0
    commands.recorded.clear()
    assert provision.main(["server"]) == 0
    assert commands.words == ["pip"]


def test_an_environment_left_half_made_is_made_again(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.codes["venv"] = 1
    assert provision.main(["server"]) == 1
    said = capsys.readouterr().err
    assert "python3-venv" in said
    assert said.count("\n") == 1
    commands.codes["venv"] = 0
    commands.recorded.clear()
    assert provision.main(["server"]) == 0
    assert commands.words == ["venv", "pip"]
    assert "--clear" in commands.recorded[0]


def test_an_unknown_group_is_refused_by_name(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert provision.main(["servre"]) == 1
    assert capsys.readouterr().err == (
        "provision.py: no group 'servre'; there are server, spark, connect, kafka, test, bench\n"
    )
    assert commands.recorded == []


def test_an_older_python_hears_it_in_one_sentence(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(provision.sys, "version_info", VERSION(3, 10, 4, "final", 0))
    assert provision.main(["server"]) == 1
    assert capsys.readouterr().err == "Boathouse needs Python 3.11 or newer; this is 3.10.\n"
    assert commands.recorded == []


def test_a_python_too_old_to_read_any_of_it_hears_the_same_from_make(tmp_path: Path) -> None:
    """`python3` is 3.6 where make may still find it; that one cannot even parse provision.py."""
    old = tmp_path / "python3"
    old.write_text(
        f"""#!/bin/sh
        test "$1" = -c || {{ echo "SyntaxError: invalid syntax" >&2; exit 1; }}
        exec {sys.executable} -c "import sys; sys.version_info = (3, 6, 8); $2"
        """
    )
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={old}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    first = done.stderr.splitlines()[0]
    assert first == "Boathouse needs Python 3.11 or newer; this is 3.6."


@pytest.mark.parametrize("name", ["provision.py", "mini.py"])
def test_an_older_python_can_read_as_far_as_that_sentence(name: str) -> None:
    ast.parse((ROOT / name).read_text(), feature_version=(3, 8))


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        ('openjdk version "17.0.12" 2024-07-16', True),
        ('openjdk version "21.0.4" 2024-07-16 LTS', True),
        ('java version "1.8.0_401"', False),
        ('openjdk version "11.0.22" 2024-01-16', False),
        ('openjdk version "24" 2025-03-18', False),
        ("no such thing", False),
    ],
)
def test_java_counts_in_the_versions_that_spark_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, accepted: bool
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert provision.has_java() is accepted


def test_every_package_of_every_group_is_pinned() -> None:
    pinned = {
        line.partition("==")[0].strip().lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    for group in provision.GROUPS:
        for requirement in provision._requirements(group):
            assert requirement.partition("[")[0].lower() in pinned, requirement


def test_setup_needs_the_standard_library_alone() -> None:
    tree = ast.parse((ROOT / "provision.py").read_text())
    names = [
        (node.names[0].name if isinstance(node, ast.Import) else node.module or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
