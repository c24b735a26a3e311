"""Translates Snowflake SQL to DataFusion SQL; the only package that uses sqlglot."""
