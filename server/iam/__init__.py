"""The IAM API."""
