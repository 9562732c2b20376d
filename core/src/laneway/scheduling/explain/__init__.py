"""What users are told about a waiting job: the reason, estimates of its start, and suggestions."""
