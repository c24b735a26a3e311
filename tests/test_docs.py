"""The docs agree with the code."""

from __future__ import annotations

import json
import re
import tomllib
import typing
from pathlib import Path

import pytest

from catalog.rest import native as catalog_native
from catalog.rest import rows as rest_rows
from jobs import face as jobs_face
from pipeline import jars
from s3tables import face as s3tables_face
from server import auditing, config, connect, native
from server.access import canned
from server.aws import model as aws_model
from server.iam import face as iam_face
from server.sts import face as sts_face
from sql import errors as sql_errors
from sql import show_listings
from sql.dialect import functions, operations, parse, unnesting
from sql.rest import routes as sql_routes
from storage import batch
from tests.kit import s3, trino

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def rows(page: str) -> list[list[str]]:
    """Every table row of a page, as stripped cells."""
    text = (DOCS / page).read_text()
    cells_of_rows = []
    for line in text.splitlines():
        if line.startswith("|"):
            cells_of_rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return cells_of_rows


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


def test_config_lists_every_key_of_a_table_bucket() -> None:
    documented = {row[0]: row[1:] for row in rows("CONFIG.md") if len(row) == 4}
    for setting in config.BUCKET_SETTINGS:
        assert documented.pop(f"`{setting.name}`") == [
            ", ".join(setting.choices)
            or (f"{setting.least} to {config.DAYS_MAX}" if setting.is_number else "true, false"),
            config.shown_default(setting),
            setting.meaning,
        ]
    assert set(documented) == {"key", "---"}


def test_every_example_of_a_settings_file_is_taken() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```", (DOCS / "CONFIG.md").read_text(), re.M | re.S)
    assert len(examples) > 1
    for example in examples:
        config.resolve({}, {}, tomllib.loads(example))


def test_config_lists_every_key_of_a_user() -> None:
    text = (DOCS / "CONFIG.md").read_text()
    for key in config.USER_KEYS:
        assert f"`{key}`" in text


def test_readme_names_every_flag() -> None:
    text = (ROOT / "README.md").read_text()
    for setting in config.SETTINGS:
        if setting.name not in config.NOT_FLAGS:
            assert f"`{setting.flag}`" in text, setting.flag


@pytest.mark.parametrize(
    "client", ["pyiceberg", "boto3", "duckdb", "snowflake", "sqlalchemy", "spark", "trino"]
)
def test_readme_shows_what_connect_prints(client: str) -> None:
    place = connect.ClientSettings(
        url="http://127.0.0.1:5253",
        access_key="ACCESS_KEY",
        secret_key="SECRET_KEY",
        warehouse="lake",
        region="us-east-1",
    )
    assert f"\n{connect.snippet(client, place)}```\n" in (ROOT / "README.md").read_text()


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


# COMPATIBILITY.md: every operation of every face.


def section(title: str) -> list[list[str]]:
    """The table rows of one section of COMPATIBILITY.md, heads left out."""
    text = (DOCS / "COMPATIBILITY.md").read_text()
    (body,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    documented = []
    for line in body.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0] != "---":
            documented.append(cells)
    return [cells for cells in documented if "done" not in cells]


def states(documented: list[list[str]], column: int) -> dict[str, str]:
    """Name -> what a table says of it; each name stands once, each state is one of three."""
    said = {cells[0]: cells[column] for cells in documented}
    assert len(said) == len(documented)
    assert set(said.values()) <= {"yes", "partly", "no"}
    return said


def test_decisions_are_numbered_one_by_one_and_carry_their_number() -> None:
    pages = sorted(DOCS.glob("decisions/0*.md"))
    assert [page.name[:4] for page in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for page in pages:
        assert page.read_text().startswith(f"# {page.name[:4]} "), page.name


def test_compatibility_names_every_s3_operation_as_the_code_has_it() -> None:
    assert states(section("S3"), 1) == s3.operations_done()


def test_compatibility_names_every_s3tables_operation_as_the_code_has_it() -> None:
    said = states(section("s3tables"), 1)
    assert set(said) == set(aws_model.load("s3tables").operations)
    assert {name for name, done in said.items() if done != "no"} == set(s3tables_face.ROWS)


def test_compatibility_names_every_operation_of_sts_as_the_code_has_it() -> None:
    said = states(section("STS"), 1)
    assert set(said) == set(aws_model.load("sts").operations)
    assert {name for name, done in said.items() if done != "no"} == set(sts_face.ROWS)


def test_compatibility_names_every_operation_of_iam_as_the_code_has_it() -> None:
    said = states(section("IAM"), 1)
    assert set(said) == set(aws_model.load("iam").operations)
    assert {name for name, done in said.items() if done != "no"} == set(iam_face.ROWS)


def test_config_lists_every_policy_of_the_server() -> None:
    listed = {row[0]: row[1] for row in rows("CONFIG.md") if len(row) == 2}
    for policy in canned.CANNED.values():
        assert listed[f"`{policy.name}`"] == policy.description


def test_compatibility_names_every_rest_operation_as_the_code_has_it() -> None:
    documented = section("Iceberg REST catalog")
    said = states(documented, 2)
    assert {cells[0]: cells[1] for cells in documented} == {
        row.name: f"`{row.endpoint}`" for row in rest_rows.ROWS
    }
    assert said == {row.name: row.done for row in rest_rows.ROWS}


def test_compatibility_names_every_snowflake_endpoint_as_the_code_has_it() -> None:
    documented = section("Snowflake protocol")
    said = states(documented, 2)
    assert set(said) == {each.__name__ for each in typing.get_args(sql_routes.Operation)} - {
        "UnknownRoute"
    }
    assert set(said.values()) == {"yes"}
    for name, route, *_ in documented:
        method, _, target = route.strip("`").partition(" ")
        path, _, query = target.replace("{query}", "q").replace("{number}", "0").partition("?")
        pairs = [("expires", "1"), *(tuple(pair.split("=")) for pair in query.split("&") if pair)]
        operation = sql_routes.identify(method, path.strip("/").split("/"), pairs)
        assert type(operation).__name__ == name


def test_compatibility_names_every_kind_of_statement_as_the_code_has_it() -> None:
    documented = [cells for cells in section("SQL") if len(cells) == 4]
    said = states(documented, 1)
    operation_types = set()
    for name, done, example, _ in documented:
        text = example.strip("`")
        if done == "no":
            with pytest.raises(sql_errors.SqlError) as refused:
                parse.parse(text)
            assert refused.value.code == "000002", name
        else:
            operation_types.add(type(parse.parse(text)))
    assert set(parse.REFUSED) <= {name for name, done in said.items() if done == "no"}
    # One example may stand for its opposite: BEGIN for COMMIT, SET for UNSET.
    paired = {
        operations.CommitTransaction,
        operations.RollbackTransaction,
        operations.UnsetVariables,
    }
    assert operation_types | paired == set(typing.get_args(operations.Operation))


def test_compatibility_names_every_show_as_the_code_has_it() -> None:
    said = states([cells for cells in section("SQL") if len(cells) == 2], 1)
    built = {name for name, done in said.items() if done != "no"}
    assert built == {f"SHOW {words}" for words in show_listings.LISTINGS}


def test_compatibility_names_every_native_operation() -> None:
    said = states(section("Native API, health, metrics"), 1)
    rows = (*native.ROWS, *auditing.ROWS, *catalog_native.ROWS, *jobs_face.ROWS)
    built = {name for name, done in said.items() if done != "no"}
    assert built == {f"`{row.method} {row.template}`" for row in rows}


def test_the_code_map_names_paths_that_are_there() -> None:
    """A name without a folder lies in the folder of the path that stands before it in its row."""
    text = (DOCS / "ARCHITECTURE.md").read_text()
    cells = re.findall(r"^\| (`[^|]+`) \|", text.partition("\n## Code map\n")[2], re.MULTILINE)
    missing = []
    for cell in cells:
        folder = Path()
        for name in re.findall(r"`([^`]+)`", cell):
            path = Path(name) if "/" in name else folder / name
            folder = path if name.endswith("/") else path.parent
            if not (ROOT / path).exists():
                missing.append(str(path))
    assert len(cells) > 30
    assert missing == []


def test_the_versions_of_clients_are_those_that_are_pinned() -> None:
    section = (DOCS / "TESTING.md").read_text().partition("\n## Engines and clients")[2]
    section = section.partition("\n## ")[0]
    listed = set(re.findall(r"`([^`\s]+)` (\d[\w.]*)", section))
    pinned = {
        ("iceberg-spark-runtime", jars.ICEBERG),
        ("hadoop-aws", jars.HADOOP),
        ("trino-server-core", trino.VERSION),
    }
    kit = ROOT / "tests" / "kit"
    pages = {path: path.read_text() for path in (kit / "requirements").glob("*.txt")}
    pages[ROOT / "constraints.txt"] = (ROOT / "constraints.txt").read_text()
    for text in pages.values():
        pinned |= set(re.findall(r"^([\w-]+)(?:\[\S+\])?==(\S+)$", text, re.M))
    for path in kit.glob("packages/*/package.json"):
        pinned |= set(json.loads(path.read_text())["dependencies"].items())
    for path in kit.glob("packages/*/go.mod"):
        modules = re.findall(
            r"github\.com/[\w-]+/([\w-]+)(?:/v\d+)? v(\S+)$", path.read_text(), re.M
        )
        pinned |= set(modules)
    for path in kit.glob("packages/*/pom.xml"):
        words = r"<artifactId>(.+)</artifactId>\s*<version>(.+)</version>"
        pinned |= set(re.findall(words, path.read_text()))
    assert len(listed) > 30
    assert listed - pinned == set()
    rows_of_section = "\n".join(line for line in section.splitlines() if line.startswith("| "))
    for test in re.findall(r"`(test_\w+\.py)`", rows_of_section):
        assert (ROOT / "tests" / "contract" / test).exists(), test


def test_functions_that_are_listed_as_not_built_are_refused_by_their_names() -> None:
    section = (DOCS / "SQL.md").read_text().partition("\n## Functions of Snowflake")[2]
    lists = section.partition("\n## ")[0].partition("\n- ")[2]
    listed = re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|\b[A-Z]{4,}\b(?=[,\n])", lists)
    assert len(listed) > 250
    assert len(set(listed)) == len(listed)
    assert set(listed).isdisjoint(unnesting.PARAMETERS)
    for name in listed:
        with pytest.raises(sql_errors.SqlError, match=name) as caught:
            functions.keywords(name)
        assert caught.value.code == "002140"


def test_every_report_of_another_catalog_names_a_test_that_exists() -> None:
    section = (
        (DOCS / "TESTING.md").read_text().partition("## What users of other catalogs report")[2]
    )
    named = re.findall(r"\| `(\S+)::(test_\w+)` \|$", section, re.M)
    assert len(named) > 30
    for path, test in named:
        assert f"def {test}(" in (ROOT / "tests" / path).read_text(), f"{path}::{test}"
