"""What the server runs by itself: scheduled pipelines and maintenance of tables."""
