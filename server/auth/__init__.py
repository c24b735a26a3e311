"""Proofs of identity: pure schemes, and the one engine that applies them."""
