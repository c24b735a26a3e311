"""Manifests of a table, decoded in the test's own process."""

from __future__ import annotations

from catalog import manifests, readers, scans


class InlineDecoder:
    """Decodes manifests of every size here, as the decoding child does."""

    async def decode(
        self, data: bytes, manifest: manifests.ManifestFile
    ) -> list[manifests.ManifestEntry]:
        return manifests.live_entries(data, manifest)

    async def decode_list(self, data: bytes) -> list[manifests.ManifestFile]:
        return manifests.decode_manifest_list(data)


async def live_files(
    planner: scans.Scans, reader: readers.Reader, *, snapshot_id: int | None = None
) -> tuple[manifests.DataFile, ...]:
    """Return every live data and delete file of a snapshot, by default the current one."""
    wanted = reader.table.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    if wanted is None:
        return ()
    listed = await planner.manifests_of(reader, wanted)
    live = [manifest for manifest in listed if manifest.has_live_files]
    read = await planner._read_manifests(live, reader)
    return tuple([entry.data_file for entries in read for entry in entries.entries])
