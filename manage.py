#!/usr/bin/env python
"""Run Django's and Sluicegate's commands: `manage.py help` lists them."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        if sys.argv[1:2] == ["queue"]:
            from queuemgr.cli.first_word import answer_early

            answer_early(sys.argv)
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)  # pressed while Django starts: commands under way say more themselves
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): end quietly, and write nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    code: object = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    from queuemgr.base.process_end import OUR_COMMANDS, end_process

    if OUR_COMMANDS.isdisjoint(sys.argv[1:2]):
        sys.exit(code)  # type: ignore[arg-type]  # the code of the exit caught above
    end_process(code)
