"""What Spark's JVM is told."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pipeline import errors, gateway, java


def test_properties_text_is_sorted_and_ends_each_line() -> None:
    text = gateway._properties_text({"spark.b": "2", "spark.a": "1"})
    assert text == "spark.a=1\nspark.b=2\n"


# Expected: java.util.Properties.load, "natural line" and "escape" rules.
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("a=b:c#d!e", "a=b:c#d!e"),
        ("C:\\jars\\*", "C:\\\\jars\\\\*"),
        ("two\nlines", "two\\nlines"),
        ("carriage\rreturn", "carriage\\rreturn"),
        ("tab\tand\fform", "tab\\tand\\fform"),
        (" leading", "\\ leading"),
        ("ends with \\", "ends with \\\\"),
        ("ключ", "ключ"),
        ("", ""),
    ],
)
def test_properties_text_escapes_what_java_would_read_otherwise(value: str, written: str) -> None:
    assert gateway._properties_text({"k": value}) == f"k={written}\n"


def test_settings_are_written_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "spark.properties"
    gateway._write_private(path, "secret=ключ\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="utf-8") == "secret=ключ\n"
    with pytest.raises(FileExistsError):
        gateway._write_private(path, "again")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            [
                "WARNING: Using incubator modules",
                'Exception in thread "main" org.apache.spark.SparkException: no such master',
                "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1065)",
            ],
            "no such master",
        ),
        (
            ["Error occurred during initialization of VM", "Could not reserve enough space"],
            "Error occurred during initialization of VM Could not reserve enough space",
        ),
        ([], "its log is empty"),
    ],
)
def test_last_words_of_a_jvm_say_what_was_wrong_without_its_stack(
    said: list[str], words: str
) -> None:
    assert gateway._last_words(said) == words


def test_a_launcher_that_does_not_end_fails_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(gateway, "spark_home", lambda: tmp_path)
    monkeypatch.setattr(gateway, "START_TIMEOUT_SECONDS", 0.2)
    runtime = java.Java(home=tmp_path, major=17, bundled=False)
    with pytest.raises(errors.SparkFailed, match=r"^Spark's launcher failed: .*Permission denied"):
        gateway.launcher_command(runtime, [], {})
    program.chmod(0o700)
    with pytest.raises(errors.SparkFailed, match=r"^Spark's launcher did not end in 0.2 s$"):
        gateway.launcher_command(runtime, [], {})
