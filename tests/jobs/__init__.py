"""Tests of jobs: rules alone, and the scheduler with a child that is no Spark."""
