"""`make connector-tests`: the Python connector's own tests, scored against a server of its own."""
