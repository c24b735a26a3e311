"""Tests of the metadata rules."""
