"""The subcommands of `manage.py queue`, one file each: NAME, HELP, EXAMPLES, add_arguments, run."""
