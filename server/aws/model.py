"""engine: reads the service models that botocore ships.

They are package data and read as such: botocore's own loader would import its whole HTTP client
(130 ms) and read the user's home folder. Parsing `s3tables` takes 15 ms, so a face does it at its
first request. Nothing else of botocore is used.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import botocore
import orjson

from server.aws import shapes

_FILE = "service-2.json"


def load(service_name: str) -> shapes.ServiceModel:
    """Return the newest model of a service, by botocore's name for it (`s3tables`)."""
    newest = max((Path(botocore.__file__).parent / "data" / service_name).iterdir())
    packed = newest / f"{_FILE}.gz"
    if packed.is_file():
        data = gzip.decompress(packed.read_bytes())
    else:
        data = (newest / _FILE).read_bytes()
    return shapes.parse_service(orjson.loads(data))
