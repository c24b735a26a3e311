"""Tests of the Snowflake face."""
