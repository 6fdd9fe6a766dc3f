"""The subcommands of `manage.py queue`: functions registered by `subcommand`, one subject a file."""
