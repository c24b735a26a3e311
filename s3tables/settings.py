"""rule: the encryption and storage class with which a table bucket or table may be created.

Bodies are stored in one class, and encryption at rest is the disk's task. AWS's defaults are
accepted; any other value is refused, not silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from s3tables import errors

ALGORITHM: Final = "AES256"
STORAGE_CLASS: Final = "STANDARD"


def check_storage(members: Mapping[str, Any]) -> None:
    """Raise BadRequest for a contradiction, and S3TablesFeatureNotImplemented for a feature that
    Boathouse does not have."""
    encryption = members.get("encryptionConfiguration")
    if encryption is not None:
        algorithm = encryption["sseAlgorithm"]
        if algorithm == "aws:kms" and "kmsKeyArn" not in encryption:
            raise errors.BadRequest("A KMS key ARN is required with the algorithm aws:kms.")
        if algorithm == "AES256" and "kmsKeyArn" in encryption:
            raise errors.BadRequest("A KMS key ARN is only valid with the algorithm aws:kms.")
        if algorithm != "AES256":
            raise errors.S3TablesFeatureNotImplemented(
                "Encryption with aws:kms is not implemented."
            )
    storage_class = members.get("storageClassConfiguration", {}).get("storageClass", STORAGE_CLASS)
    if storage_class != STORAGE_CLASS:
        raise errors.S3TablesFeatureNotImplemented(
            f"The storage class {storage_class} is not implemented."
        )
