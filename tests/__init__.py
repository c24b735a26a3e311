"""Tests of Boathouse; the tree mirrors the packages."""
