"""Which secrets a program does not need, by the table an application has in its settings.

`SLUICE_PROGRAM_SECRETS` maps the programs of an installation to the variables of their secrets: a worker is
named by the phases it serves (`housekeeping` for periodic jobs), beat and whatever else is started beside
them by their own names. A program that is not in it is given everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from django.conf import settings

from queuemgr.base import secret_environment
from queuemgr.base.settings_group import SettingsGroup

Table = Mapping[str, Collection[str]]


def all_groups(base: type[SettingsGroup] = SettingsGroup) -> Iterator[type[SettingsGroup]]:
    """Every group of settings that is loaded, of the queue's and of applications."""
    for group in base.__subclasses__():
        yield group
        yield from all_groups(group)


def secret_variables() -> frozenset[str]:
    """The environment variables of all secrets among the settings."""
    return frozenset(variable for group in all_groups() for variable in group.secrets().values())


def program_secrets() -> Table:
    table: Table = getattr(settings, "SLUICE_PROGRAM_SECRETS", {})
    return table


def all_secrets(table: Table) -> frozenset[str]:
    """The variables of all secrets among the settings and in the table."""
    return secret_variables().union(*table.values())


def unneeded(programs: Iterable[str], table: Table) -> frozenset[str]:
    """The secrets that none of these programs needs, which run as one process; none, if one is not in the
    table."""
    wanted = list(programs)
    if not wanted or not all(program in table for program in wanted):
        return frozenset()
    return all_secrets(table).difference(*(table[program] for program in wanted))


def environment_of(programs: Iterable[str]) -> dict[str, str]:
    """Variables for a program that inherits this environment: each secret it does not need is empty."""
    return dict.fromkeys(sorted(unneeded(programs, program_secrets())), "")


def keep_secrets_in_memory() -> None:
    """Take every secret out of the environment of this process, which keeps those it has in its memory."""
    secret_environment.keep_in_memory(secret_variables())
