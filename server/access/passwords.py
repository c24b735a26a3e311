"""rule: hashes of passwords: argon2id, with the smallest memory that OWASP recommends.

Hashing takes some 20 ms and 19 MiB, so callers run it in a thread, few at a time. The salt is an
argument.
"""

from __future__ import annotations

from typing import Final

from cryptography import exceptions
from cryptography.hazmat.primitives.kdf import argon2

ITERATIONS: Final = 2
MEMORY_KIB: Final = 19 * 1024
HASH_BYTES: Final = 32
SALT_BYTES: Final = 16
LENGTH_MIN: Final = 8
LENGTH_MAX: Final = 256


def hash_of(password: str, salt: bytes) -> str:
    """Return a password's hash: text that also has the salt and the parameters."""
    kdf = argon2.Argon2id(
        salt=salt,
        length=HASH_BYTES,
        iterations=ITERATIONS,
        lanes=1,
        memory_cost=MEMORY_KIB,
    )
    return kdf.derive_phc_encoded(password.encode("utf-8", "surrogatepass"))


def verify(hashed: str, password: str) -> bool:
    """Return whether a password has a hash. An empty hash is no password's, and costs as much."""
    secret = password.encode("utf-8", "surrogatepass")
    try:
        argon2.Argon2id.verify_phc_encoded(secret[: 4 * LENGTH_MAX], hashed or _NO_PASSWORD)
    except exceptions.InvalidKey:
        return False
    return bool(hashed) and len(secret) <= 4 * LENGTH_MAX


_NO_PASSWORD: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA"
    "$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)
