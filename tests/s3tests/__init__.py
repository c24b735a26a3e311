"""`make s3-tests`: the public suite ceph/s3-tests, scored against a server of its own."""
