"""rule: the properties that change the catalog's own behaviour.

All other properties are the engines' and pass through. A path in a property must be one where the
table bucket's layout allows writes, so that a wrong one fails at once with a reason, not at the
first data file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from catalog import errors

MetadataCodec: TypeAlias = Literal["none", "gzip"]

NAMESPACE_LOCATION: Final = "location"
METADATA_PATH: Final = "write.metadata.path"
METADATA_CODEC: Final = "write.metadata.compression-codec"

PATHS: Final = {
    "write.data.path": "data",
    "write.object-storage.path": "data",
    "write.folder-storage.path": "data",
    METADATA_PATH: "metadata",
    "flink.manifests.location": "metadata",
}
"""Properties with a path for writers, and the directory of the location that must contain it."""

SCHEMES: Final = ("s3", "s3a", "s3n")
"""The URI schemes of an object."""

PROPERTY_CHARACTERS_MAX: Final = 64 * 1024
PROPERTIES_MAX: Final = 1_000


def check_paths(properties: Mapping[str, str], *, location: str) -> None:
    """Raise InvalidProperty if a property has a path where the layout refuses writes.

    location: the table's, as in its metadata.
    """
    home = plain_uri(location)
    for name, directory in PATHS.items():
        value = properties.get(name)
        if value is None:
            continue
        allowed = f"{home}/{directory}"
        uri = plain_uri(value)
        is_below = uri == allowed or uri.startswith(allowed + "/")
        if not is_below or not {".", ".."}.isdisjoint(uri.split("/")):
            raise errors.InvalidProperty(
                f"Cannot set {name} to {value}: files of this table may only be written in"
                f" {location.rstrip('/')}/{directory}"
            )


def metadata_codec(properties: Mapping[str, str]) -> MetadataCodec:
    """Return the compression of new metadata files. Raises InvalidProperty."""
    value = properties.get(METADATA_CODEC, "none").lower()
    if value in ("none", "uncompressed", ""):
        return "none"
    if value == "gzip":
        return "gzip"
    raise errors.InvalidProperty(f"Invalid {METADATA_CODEC}: {value} is neither none nor gzip")


def metadata_directory(properties: Mapping[str, str], *, location: str) -> str:
    """Return the URI of the directory for new metadata files, without trailing slash."""
    return properties.get(METADATA_PATH, f"{location.rstrip('/')}/metadata").rstrip("/")


def check_namespace_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidProperty unless the properties of a namespace are bounded text."""
    if len(properties) > PROPERTIES_MAX:
        raise errors.InvalidProperty(f"A namespace has at most {PROPERTIES_MAX} properties")
    length = sum(len(name) + len(value) for name, value in properties.items())
    if length > PROPERTY_CHARACTERS_MAX:
        raise errors.InvalidProperty(
            f"The properties of a namespace are at most {PROPERTY_CHARACTERS_MAX} characters in all"
        )


def is_below(uri: str, home: str) -> bool:
    """Say whether every client opens uri below home. home: as `plain_uri` returns it.

    This server takes `.` and `..` for names. Clients with Hadoop's paths leave the directory.
    """
    plain = plain_uri(uri)
    return plain.startswith(f"{home}/") and {".", ".."}.isdisjoint(plain.split("/"))


def plain_uri(uri: str) -> str:
    """Return uri with the scheme s3 for its Hadoop spellings, and no trailing slash."""
    for scheme in ("s3a://", "s3n://"):
        if uri.startswith(scheme):
            return "s3://" + uri[len(scheme) :].rstrip("/")
    return uri.rstrip("/")
