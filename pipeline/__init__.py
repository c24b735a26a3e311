"""PySpark jobs in their own processes, clients of the server's public APIs."""
