"""The docs agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server import config
from storage import batch

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def rows(page: str) -> list[list[str]]:
    """Every table row of a page, as stripped cells."""
    text = (DOCS / page).read_text()
    found = []
    for line in text.splitlines():
        if line.startswith("|"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def test_config_lists_every_setting_with_its_flag_variable_default_and_meaning() -> None:
    documented = {row[0]: row[1:] for row in rows("CONFIG.md") if len(row) == 5}
    for setting in config.SETTINGS:
        flag = "-" if setting.name in config.NOT_FLAGS else f"`{setting.flag}`"
        assert documented.pop(f"`{setting.name}`") == [
            flag,
            f"`{setting.variable}`",
            config.shown_default(setting),
            setting.meaning,
        ]
    assert set(documented) == {"key in mini.toml", "---"}


def test_config_lists_every_key_of_a_user() -> None:
    text = (DOCS / "CONFIG.md").read_text()
    for key in config.USER_KEYS:
        assert f"`{key}`" in text


def test_readme_names_every_flag() -> None:
    text = (ROOT / "README.md").read_text()
    for setting in config.SETTINGS:
        if setting.name not in config.NOT_FLAGS:
            assert f"`{setting.flag}`" in text, setting.flag


def test_on_disk_describes_every_store() -> None:
    text = (DOCS / "ON_DISK.md").read_text()
    for store in batch.Store:
        assert f"`{store.value}`" in text, store


def test_the_makefile_lists_what_the_docs_promise() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")):
        for target in re.findall(r"`make ([a-z][a-z0-9-]*)`", page.read_text()):
            assert target in targets, f"{page.name} names make {target}"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
