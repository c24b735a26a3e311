"""The S3 face: bytes of a request become one closed operation, the operation meets storage."""
