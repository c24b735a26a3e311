"""Tests against a Spark cluster that they start: `make test-cluster`."""
