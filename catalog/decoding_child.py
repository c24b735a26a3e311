"""engine: the child that decodes manifests: frames in, frames out, over its own two pipes.

Started as `python -m catalog.decoding_child`. A request is two lengths, what the manifest list says
of a manifest, and the manifest; an answer its length, whether it is entries or a complaint, and
either. Ends when its input does, so a dead server leaves no child behind. Opens nothing.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

import msgspec

from catalog import manifests

REQUEST = struct.Struct(">IQ")
ANSWER = struct.Struct(">Q?")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        described_bytes, data_bytes = REQUEST.unpack(head)
        described = requests.read(described_bytes)
        data = requests.read(data_bytes)
        try:
            manifest = msgspec.msgpack.decode(described, type=manifests.ManifestFile)
            live = manifests.live_entries(data, manifest, isolated=True)
            sound, answer = True, manifests.pack_entries(live)
        except manifests.InvalidManifest as error:
            sound, answer = False, str(error).encode()
        answers.write(ANSWER.pack(len(answer), sound))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
