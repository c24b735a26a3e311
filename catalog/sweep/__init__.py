"""The sweep of table buckets: which files of tables nothing reaches any more, and freeing them."""
