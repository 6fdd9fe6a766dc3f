"""Other queues on PostgreSQL, as their own pages show them; run in an environment of their own."""
