"""Tables of very many files, snapshots or columns, made by a client's own means, for campaigns.

Data and delete files are PUT by S3, manifests are written by `catalog.manifest_encoding` and PUT
too, and one commit names them. Files of one sort share their bytes; what manifests say of their
columns differs.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import http.client
import io
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from catalog import manifest_encoding, manifests
from tests.kit import rest, s3

UPLOADERS: Final = 4
MANIFEST_ENTRIES: Final = 5_000
TIMEOUT_SECONDS: Final = 120
SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "n", "required": False, "type": "int"},
        {"id": 3, "name": "s", "required": False, "type": "string"},
    ],
}
COLUMNS: Final = {"id": pa.int64(), "n": pa.int32(), "s": pa.string()}
FILE_PATH_ID, POSITION_ID = 2147483546, 2147483545


@dataclass(frozen=True, kw_only=True)
class Sorts:
    """What a table is made of. sequenced: each data file has a sequence number of its own, and so
    has each delete file of a sort, so that it applies to older data files and not to newer ones.

    Each position delete file names one row of the first data file, which nothing but the file
    itself says. ids, deleted_ids: the values of `id` in the n-th data file, and in the n-th
    equality delete file; without more, the deletes name a value that no row has.
    """

    data_files: int
    position_deletes: int = 0
    equality_deletes: int = 0
    sequenced: bool = False
    ids: Callable[[int], Sequence[int]] = lambda _: (7,)
    deleted_ids: Callable[[int], Sequence[int]] = lambda _: (-1,)


def make(place: Any, namespace: str, name: str, sorts: Sorts) -> None:
    """Make a table of these files in the table bucket `lake`. place: a `stalls.Target`, of root."""
    with rest.Client(place.running) as client:
        client.ask("POST", "namespaces", {"namespace": [namespace]})
        request = {"name": name, "schema": SCHEMA, "properties": {"format-version": "2"}}
        status, table = client.ask("POST", f"namespaces/{namespace}/tables", request)
        assert status == 200, table
    metadata = table["metadata"]
    location = metadata["location"]
    bodies: dict[str, bytes] = {}
    data = _data_entries(location, sorts, bodies)
    deletes = _delete_entries(location, sorts, bodies)
    manifest_files = [
        _manifest(location, part, content, number, bodies)
        for number, (content, part) in enumerate(
            [
                *((manifests.ManifestContent.DATA, part) for part in _parts(data)),
                *((manifests.ManifestContent.DELETES, part) for part in _parts(deletes)),
            ]
        )
    ]
    updates, requirements = rest.append(metadata, 1)
    sequence_number = sorts.data_files + 10
    encoded, _ = manifest_encoding.encode_manifest_list(
        [
            msgspec.structs.replace(
                manifest, sequence_number=sequence_number, min_sequence_number=1
            )
            for manifest in manifest_files
        ],
        format_version=2,
        snapshot_id=1,
        parent_snapshot_id=None,
        sequence_number=sequence_number,
        first_row_id=None,
        sync=uuid.uuid4().bytes,
    )
    snapshot = updates[0]["snapshot"]
    snapshot["sequence-number"] = sequence_number
    bodies[snapshot["manifest-list"]] = encoded
    upload(place, bodies)
    with rest.Client(place.running) as client:
        status, answer = client.commit(namespace, name, updates, requirements)
    assert status == 200, answer


def make_history(place: Any, namespace: str, name: str, *, snapshots: int, note: int) -> None:
    """Register a table without rows whose metadata file has so many snapshots.

    note: characters that each snapshot's summary says beside.
    """
    with rest.Client(place.running) as client:
        metadata = client.make_table(namespace, name)["metadata"]
    updates, _ = rest.append(metadata, 1)
    snapshot = updates[0]["snapshot"]
    snapshot["summary"]["note"] = "x" * note
    began_ms = metadata["last-updated-ms"] - snapshots
    metadata["snapshots"] = [
        {**snapshot, "snapshot-id": n, "timestamp-ms": began_ms + n}
        for n in range(1, snapshots + 1)
    ]
    metadata["snapshot-log"] = [
        {"snapshot-id": n, "timestamp-ms": began_ms + n} for n in range(1, snapshots + 1)
    ]
    metadata["last-sequence-number"] = snapshot["sequence-number"]
    location = f"{metadata['location']}/metadata/00001-{uuid.uuid4()}.metadata.json"
    upload(place, {location: msgspec.json.encode(metadata)})
    with rest.Client(place.running) as client:
        path = f"namespaces/{namespace}/tables/{name}/unregister"
        status, answer = client.ask("POST", path, {})
        assert status == 200, answer
        request = {"name": name, "metadata-location": location}
        status, answer = client.ask("POST", f"namespaces/{namespace}/register", request)
        assert status == 200, answer


def data_manifest(sorts: Sorts) -> bytes:
    """Return the bytes of a manifest as `make` writes it for the data files of a table."""
    bodies: dict[str, bytes] = {}
    location = "s3://lake/ns/t"
    entries = _data_entries(location, sorts, bodies)
    manifest = _manifest(location, entries, manifests.ManifestContent.DATA, 0, bodies)
    return bodies[manifest.manifest_path]


def _parts(entries: Sequence[Any]) -> Iterable[Sequence[Any]]:
    for start in range(0, len(entries), MANIFEST_ENTRIES):
        yield entries[start : start + MANIFEST_ENTRIES]


def _data_entries(
    location: str, sorts: Sorts, bodies: dict[str, bytes]
) -> list[manifests.ManifestEntry]:
    encoded: dict[Sequence[int], bytes] = {}
    entries = []
    for number in range(sorts.data_files):
        path = f"{location}/data/{number:07}.parquet"
        ids = sorts.ids(number)
        if ids not in encoded:
            columns = {"id": ids, "n": [7] * len(ids), "s": ["seven"] * len(ids)}
            encoded[ids] = _parquet(columns, {"id": 1, "n": 2, "s": 3})
        body = bodies[path] = encoded[ids]
        file = manifests.DataFile(
            file_path=path,
            file_format="PARQUET",
            record_count=len(ids),
            file_size_in_bytes=len(body),
            metrics=manifests.Metrics(
                value_counts=dict.fromkeys((1, 2, 3), len(ids)),
                null_value_counts={1: 0, 2: 0, 3: 0},
                lower_bounds={
                    1: struct.pack("<q", min(number % 9, *ids)),
                    2: struct.pack("<i", 0),
                    3: b"a",
                },
                upper_bounds={
                    1: struct.pack("<q", max(number, *ids)),
                    2: struct.pack("<i", 9),
                    3: b"z",
                },
            ),
        )
        entries.append(_entry(file, number + 1 if sorts.sequenced else 1))
    return entries


def _delete_entries(
    location: str, sorts: Sorts, bodies: dict[str, bytes]
) -> list[manifests.ManifestEntry]:
    first = f"{location}/data/{0:07}.parquet"
    positions = _parquet(
        {"file_path": [first], "pos": [5]}, {"file_path": FILE_PATH_ID, "pos": POSITION_ID}
    )
    encoded: dict[Sequence[int], bytes] = {}
    entries = []
    for sort, count, content in (
        ("p", sorts.position_deletes, manifests.Content.POSITION_DELETES),
        ("e", sorts.equality_deletes, manifests.Content.EQUALITY_DELETES),
    ):
        for number in range(count):
            path = f"{location}/data/{sort}-{number:07}.parquet"
            body = positions
            if sort == "e":
                ids = sorts.deleted_ids(number)
                body = encoded[ids] = encoded.get(ids) or _parquet({"id": ids}, {"id": 1})
            bodies[path] = body
            file = manifests.DataFile(
                file_path=path,
                file_format="PARQUET",
                record_count=1,
                file_size_in_bytes=len(body),
                content=content,
                equality_ids=(1,) if content == manifests.Content.EQUALITY_DELETES else None,
            )
            newest = sorts.data_files + 5
            entries.append(_entry(file, number + 2 if sorts.sequenced else newest))
    return entries


def _entry(file: manifests.DataFile, sequence_number: int) -> manifests.ManifestEntry:
    return manifests.ManifestEntry(
        status=manifests.Status.EXISTING,
        snapshot_id=1,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
        data_file=file,
    )


def _parquet(columns: Mapping[str, Sequence[Any]], ids: Mapping[str, int]) -> bytes:
    types = {**COLUMNS, "file_path": pa.string(), "pos": pa.int64()}
    schema = pa.schema(
        [
            pa.field(name, types[name], metadata={"PARQUET:field_id": str(ids[name])})
            for name in columns
        ]
    )
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pydict(dict(columns), schema=schema), buffer)
    return buffer.getvalue()


def _manifest(
    location: str,
    entries: Sequence[manifests.ManifestEntry],
    content: manifests.ManifestContent,
    number: int,
    bodies: dict[str, bytes],
) -> manifests.ManifestFile:
    path = f"{location}/metadata/{number}-m.avro"
    encoded, manifest = manifest_encoding.encode_manifest(
        entries,
        path=path,
        schema=SCHEMA,
        spec={"spec-id": 0, "fields": []},
        format_version=2,
        content=content,
        snapshot_id=1,
        sync=uuid.uuid4().bytes,
    )
    bodies[path] = encoded
    return manifest


def upload(place: Any, bodies: Mapping[str, bytes]) -> None:
    """PUT bodies by their URIs, several at a time."""
    items = list(bodies.items())
    with concurrent.futures.ThreadPoolExecutor(UPLOADERS) as threads:
        shares = [items[number::UPLOADERS] for number in range(UPLOADERS)]
        list(threads.map(lambda share: _upload(place, share), shares))


def _upload(place: Any, items: Sequence[tuple[str, bytes]]) -> None:
    connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_SECONDS)
    for uri, body in items:
        target = "/" + uri.removeprefix("s3://")
        headers = s3.sign(place, "PUT", target, payload_hash=hashlib.sha256(body).hexdigest())
        connection.request("PUT", target, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
    connection.close()
