"""Tests of the S3 face."""
