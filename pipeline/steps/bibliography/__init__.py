"""Papers and their references in the formats of programs that manage literature."""
