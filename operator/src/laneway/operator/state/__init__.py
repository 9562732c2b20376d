"""The known state of the cluster: records of its objects in their newest versions, and the sessions that nodes report."""
