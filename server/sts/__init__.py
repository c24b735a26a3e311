"""The STS API."""
