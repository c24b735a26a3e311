"""Service models as botocore ships them, read without botocore's client."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import botocore.loaders
import pytest

from server.aws import model, shapes


@pytest.fixture(scope="module")
def service() -> shapes.ServiceModel:
    return model.load("s3tables")


def test_load_s3tables_has_its_57_operations(service: shapes.ServiceModel) -> None:
    assert len(service.operations) == 57
    assert service.name == "S3Tables"


def test_load_agrees_with_botocores_own_loader(service: shapes.ServiceModel) -> None:
    said = botocore.loaders.Loader().load_service_model("s3tables", "service-2")
    assert service.operations.keys() == said["operations"].keys()
    assert service.shapes.keys() == said["shapes"].keys()
    for name, operation in service.operations.items():
        http = said["operations"][name]["http"]
        route = "/".join(
            part if isinstance(part, str) else f"{{{part.name}}}" for part in operation.route
        )
        assert (operation.method, f"/{route}") == (http["method"], http["requestUri"])
        assert operation.status == http.get("responseCode", 200)
    for name, shape in service.shapes.items():
        body = said["shapes"][name]
        assert shape.required == frozenset(body.get("required", ()))
        assert [member.name for member in shape.members] == list(body.get("members", {}))
        assert (shape.pattern, shape.minimum, shape.maximum, list(shape.enum)) == (
            body.get("pattern"),
            body.get("min"),
            body.get("max"),
            body.get("enum", []),
        )


def test_every_input_uses_only_what_the_kit_reads(service: shapes.ServiceModel) -> None:
    seen: set[str] = set()

    def walk(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        shape = service.shapes[name]
        for member in shape.members:
            walk(member.shape)
        for inner in (shape.element, shape.key):
            if inner is not None:
                walk(inner)

    for operation in service.operations.values():
        for member in service.input_members(operation):
            assert member.location in ("uri", "querystring", "body")
            walk(member.shape)
    types = {service.shapes[name].type for name in seen}
    assert types <= {
        "string", "integer", "long", "boolean", "list", "map", "structure", "document",
    }  # fmt: skip


def test_every_pattern_is_one_that_python_reads_alike(service: shapes.ServiceModel) -> None:
    for shape in service.shapes.values():
        if shape.pattern is not None:
            re.compile(shape.pattern)
            assert "\\p" not in shape.pattern
            assert "(?" not in shape.pattern


@pytest.mark.parametrize("name", ["sts", "iam", "s3"])
def test_load_reads_the_other_services_too(name: str) -> None:
    assert model.load(name).operations


def test_load_takes_less_than_100_ms_of_a_processor() -> None:
    seconds = []
    for _ in range(5):
        started = time.process_time()
        model.load("s3tables")
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.1


def test_import_pulls_in_no_http_client() -> None:
    code = (
        "import sys; import s3tables.face; "
        "print([n for n in ('urllib3', 'botocore.loaders', 'botocore.client') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
