"""Hostile requests against a running server: latency of others, growth of the process."""
