"""rule: the encryption and storage class with which a table bucket or table may be created.

Bodies are stored in one class, which is accepted. Encryption at rest is the disk's task: AES256 is
accepted where the operator says that the disk encrypts. Any other value is refused as a request
that cannot be served here (docs/decisions/0075).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from s3tables import errors

ALGORITHM: Final = "AES256"
ENCRYPTION: Final = "encryption"
"""The setting of a table bucket that was created with an encryption, or to which one was put."""
STORAGE_CLASS: Final = "STANDARD"


def with_encryption(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table bucket's settings with the one encryption that there is."""
    return {**settings, ENCRYPTION: ALGORITHM}


def check_storage(members: Mapping[str, Any], *, encrypted_disk: bool) -> None:
    """Raise BadRequest for a contradiction, a KMS key, and a value that would not be true here.

    encrypted_disk: AES256 holds for every body.
    """
    encryption = members.get("encryptionConfiguration")
    if encryption is not None:
        algorithm = encryption["sseAlgorithm"]
        if algorithm == "aws:kms" and "kmsKeyArn" not in encryption:
            raise errors.BadRequest("A KMS key ARN is required with the algorithm aws:kms.")
        if algorithm == "AES256" and "kmsKeyArn" in encryption:
            raise errors.BadRequest("A KMS key ARN is only valid with the algorithm aws:kms.")
        if algorithm != "AES256":
            raise errors.BadRequest(
                f"The KMS key {encryption['kmsKeyArn']} does not exist: Boathouse has no KMS."
            )
        if not encrypted_disk:
            raise errors.BadRequest(
                f"Encryption with {ALGORITHM} needs a data folder on an encrypted disk, and the "
                "setting encrypted_disk in mini.toml."
            )
    storage_class = members.get("storageClassConfiguration", {}).get("storageClass", STORAGE_CLASS)
    if storage_class != STORAGE_CLASS:
        raise errors.BadRequest(
            f"The storage class {storage_class} is not available: every object is in "
            f"{STORAGE_CLASS}."
        )
