"""`make slt`: a public corpus of Snowflake statements, scored over the wire by its own driver."""
