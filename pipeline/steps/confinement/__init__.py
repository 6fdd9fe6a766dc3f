"""What a process that parses hostile files gives up before it reads one (Linux; standard library only)."""
