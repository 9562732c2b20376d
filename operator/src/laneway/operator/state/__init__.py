"""What is known of the cluster: records of its objects, the newest version of each, and the sessions that nodes report."""
