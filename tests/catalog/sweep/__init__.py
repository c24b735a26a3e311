"""Tests of the sweep of tables."""
