"""Properties that change what the catalog does."""

from __future__ import annotations

import pytest

from catalog import errors, properties

HOME = "s3://lake/ns/t"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.data.path", f"{HOME}/data"),
        ("write.data.path", f"{HOME}/data/"),
        ("write.data.path", "s3a://lake/ns/t/data/sub"),
        ("write.object-storage.path", f"{HOME}/data/x"),
        ("write.folder-storage.path", f"{HOME}/data"),
        ("write.metadata.path", f"{HOME}/metadata"),
        ("flink.manifests.location", f"{HOME}/metadata/"),
        ("write.something.path", "s3://elsewhere/"),
    ],
)
def test_a_path_inside_its_directory_of_the_location_is_taken(name: str, value: str) -> None:
    properties.check_paths({name: value}, location=HOME + "/")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.data.path", "s3://other/ns/t/data"),
        ("write.data.path", HOME),
        ("write.data.path", f"{HOME}/metadata"),
        ("write.data.path", f"{HOME}/database"),
        ("write.data.path", "s3://lake/ns/t2/data"),
        ("write.metadata.path", f"{HOME}/data"),
        ("write.object-storage.path", "file:/tmp/data"),
        ("write.data.path", f"{HOME}/data/../../other/t/data"),
        ("write.metadata.path", f"{HOME}/metadata/./x"),
    ],
)
def test_a_path_where_the_layout_refuses_writers_is_refused(name: str, value: str) -> None:
    with pytest.raises(errors.InvalidProperty, match=name):
        properties.check_paths({name: value}, location=HOME)


def test_metadata_is_compressed_only_on_request() -> None:
    codec = "write.metadata.compression-codec"
    assert properties.metadata_codec({}) == "none"
    assert properties.metadata_codec({codec: "GZIP"}) == "gzip"
    with pytest.raises(errors.InvalidProperty, match="lz4"):
        properties.metadata_codec({codec: "lz4"})


def test_namespace_properties_are_bounded() -> None:
    properties.check_namespace_properties({"a": "b"})
    with pytest.raises(errors.InvalidProperty):
        properties.check_namespace_properties({"a": "x" * 70_000})
    with pytest.raises(errors.InvalidProperty):
        properties.check_namespace_properties({str(number): "" for number in range(1_001)})
