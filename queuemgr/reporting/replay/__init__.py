"""What would have happened under other limits."""
