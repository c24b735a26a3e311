"""Server access logging: records of requests, delivered as objects to another bucket."""
