"""API objects as view data: pure functions that accept any content, because users and nodes write these objects."""
