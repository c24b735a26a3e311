"""engine: the child that decodes manifests: frames in, frames out, over its own two pipes.

Started as `python -m catalog.decoding_child`. A request is its length, the spec id and the
manifest; an answer its length, whether it is entries or a complaint, and either. Ends when its
input does, so a dead server leaves no child behind. Opens nothing.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

from catalog import manifests

REQUEST = struct.Struct(">Qi")
ANSWER = struct.Struct(">Q?")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        size_bytes, spec_id = REQUEST.unpack(head)
        data = requests.read(size_bytes)
        try:
            sound, answer = (
                True,
                manifests.pack_entries(
                    manifests.decode_manifest(data, spec_id=spec_id, isolated=True)
                ),
            )
        except manifests.InvalidManifest as error:
            sound, answer = False, str(error).encode()
        answers.write(ANSWER.pack(len(answer), sound))
        answers.write(answer)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
