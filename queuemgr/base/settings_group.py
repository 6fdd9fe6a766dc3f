"""A group of settings, and where the value of each comes from.

A value on the command line wins over one in Django's settings, that over the environment, and that over
the default here. Commands pass their command line to the processes they start in one variable.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar, get_args

from django.conf import settings as django_settings
from pydantic import (
    BaseModel,
    ConfigDict,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from queuemgr.base import process_state, secret_environment
from queuemgr.base.column_sizes import MAX_DAYS, MAX_INTEGER, MAX_SECONDS
from queuemgr.base.credentials import (
    register_secret_text,
    register_url_credentials,
    url_problem,
    without_url_credentials,
)
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.redaction import without_secrets
from queuemgr.base.safe_text import excerpt

COMMAND_LINE = "SLUICE_COMMAND_LINE"

Loaded = TypeVar("Loaded")


class DjangoSettings:
    """Django's settings, where a setting may be set under its variable's name."""

    def get(self, name: str) -> Any:
        return getattr(django_settings, name, None)


DJANGO_SETTINGS = DjangoSettings()


def from_command_line() -> dict[str, Any]:
    """The settings on the command line of the command that started this process, by name."""
    return dict(json.loads(os.environ.get(COMMAND_LINE, "{}")))


def apply_command_line(chosen: Mapping[str, Any]) -> None:
    """Apply settings from a command line to this process and to the processes it starts."""
    os.environ[COMMAND_LINE] = json.dumps({**from_command_line(), **chosen})
    process_state.reset_settings()


def read_once(load: Callable[[], Loaded]) -> Callable[[], Loaded]:
    """Decorates a loader of settings: it reads them once in a process, and again after a reset, such as the
    one after a command line is applied."""
    cached = lru_cache(maxsize=1)(load)
    process_state.register_settings(cached.cache_clear)
    return cached


class SettingsGroup(BaseModel):
    """Base of the groups of settings: each field is read from `SLUICE_<NAME>`.

    A secret is a `SecretStr`. Secrets, and passwords in any other text, are masked as soon as they are read.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, populate_by_name=True, validate_default=True, protected_namespaces=()
    )

    @classmethod
    def variable(cls, name: str) -> str:
        """The environment variable, and Django setting, of a setting."""
        field = cls.model_fields[name]
        alias = field.validation_alias
        return str(alias) if alias else f"SLUICE_{name.upper()}"

    @classmethod
    def load(cls, settings: Mapping[str, Any] | DjangoSettings | None = None) -> Self:
        """Read this group; raises `ConfigurationError` naming each bad setting, its value and the range."""
        values = {name: cls._stated(cls.variable(name), settings or {}) for name in cls.model_fields}
        values |= {name: value for name, value in from_command_line().items() if name in values}
        for name in cls.secrets():  # before an error can quote one that stands elsewhere too
            _mask_stated(values[name])
        try:
            return cls(**{name: value for name, value in values.items() if value is not None})
        except ValidationError as error:
            problems = "; ".join(_sentence(cls, problem) for problem in error.errors())
            raise ConfigurationError(problems) from None

    @classmethod
    def secrets(cls) -> dict[str, str]:
        """The environment variables of its secrets, by name."""
        fields = cls.model_fields.items()
        return {name: cls.variable(name) for name, field in fields if _holds_a_secret(field.annotation)}

    @model_validator(mode="after")
    def _mask_secrets(self) -> Self:
        for name in type(self).model_fields:
            _mask(getattr(self, name))
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, without_secrets(value) if isinstance(value, str) else value

    @staticmethod
    def _stated(variable: str, settings: Mapping[str, Any] | DjangoSettings) -> Any:
        """Its value in Django's settings or in the environment, this one or one of this process that is no
        more. An empty variable states nothing."""
        value = settings.get(variable)
        if value is not None:
            return value
        if variable in os.environ:
            return os.environ[variable] or None
        return secret_environment.kept(variable) or None

    @field_validator("*")
    @classmethod
    def _urls_are_readable(cls, value: Any) -> Any:
        """A secret that is a URL is read by libraries, which quote what they do not understand of it."""
        if isinstance(value, SecretStr) and (problem := url_problem(value.get_secret_value())):
            raise ValueError(problem)
        return value

    @field_validator("*")
    @classmethod
    def _within_reason(cls, value: Any, info: ValidationInfo) -> Any:
        """No number is too large for the columns it is stored in, nor for the times it is counted in; fields
        with an upper bound of their own keep that."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        name = str(info.field_name)
        if any(hasattr(bound, "le") or hasattr(bound, "lt") for bound in cls.model_fields[name].metadata):
            return value
        most = MAX_INTEGER if isinstance(value, int) else MAX_DAYS if name.endswith("_days") else MAX_SECONDS
        if not value <= most:
            raise ValueError(f"Input should be less than or equal to {most:.0f}")
        return value

    @classmethod
    def source(cls, name: str, settings: Mapping[str, Any] | DjangoSettings | None = None) -> str:
        """Where the value of a setting comes from: command line, settings, environment or default."""
        variable = cls.variable(name)
        if name in from_command_line():
            return "command line"
        if (settings or {}).get(variable) is not None:
            return "settings"
        read = variable in os.environ or secret_environment.kept(variable) is not None
        return "environment" if read else "default"


def _mask_stated(secret: Any) -> None:
    _mask(SecretStr(secret) if isinstance(secret, str) else secret)


def _mask(value: Any) -> None:
    if isinstance(value, SecretStr):
        register_secret_text(value.get_secret_value())
    elif isinstance(value, str):
        register_url_credentials(value)
    elif isinstance(value, Mapping):
        _mask(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            _mask(inner)


def _holds_a_secret(annotation: Any) -> bool:
    """Whether this is `SecretStr`, or contains it, such as `SecretStr | None`."""
    return annotation is SecretStr or any(map(_holds_a_secret, get_args(annotation)))


def _sentence(group: type[SettingsGroup], problem: Any) -> str:
    """A problem as `VARIABLE=value: what is wrong`, without the values of secrets, and only the beginning of
    a long one."""
    message = _cut(without_secrets(str(problem["msg"]).removeprefix("Value error, ")), LONGEST_MESSAGE)
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if name not in group.model_fields:
        return f"{name}: {message}" if name else message
    if problem["type"] == "int_parsing_size":
        message = f"Input should be less than or equal to {_most(group, name)}"
    hidden = name in group.secrets() or problem["type"] == "missing"
    if problem["type"] == "value_error" and not hidden and _holds_a_known_secret(problem["input"]):
        message = "it holds a password or a key"  # and what is said of it may quote a part
    value = "" if hidden else f"={_shown(problem['input'])}"
    return f"{group.variable(name)}{value}: {message}"


LONGEST_VALUE, LONGEST_MESSAGE = 60, 400
"""Characters of a refused value that are quoted, and of what is said about it."""


def _holds_a_known_secret(value: Any) -> bool:
    return isinstance(value, str) and without_url_credentials(without_secrets(value)) != value


def _shown(value: Any) -> str:
    """Masked before it is cut: what is left of a secret would not be found."""
    masked = without_secrets(value) if isinstance(value, str) else value
    return _cut(without_secrets(excerpt(masked, LONGEST_MESSAGE)), LONGEST_VALUE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _most(group: type[SettingsGroup], name: str) -> int:
    bounds = (getattr(bound, "le", None) for bound in group.model_fields[name].metadata)
    return next((int(bound) for bound in bounds if bound is not None), MAX_INTEGER)


def json_stated(text: str, **options: Any) -> Any:
    """The value of a setting that is JSON; a number of more digits than any setting has is infinite. Raises
    `ValueError`, which says what is wrong with it."""
    try:
        return json.loads(text, **{"parse_int": _integer, **options})
    except RecursionError:
        raise ValueError("it is no JSON (nested too deeply)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MOST_DIGITS else math.inf


MOST_DIGITS = 100


def set_default(group: type[SettingsGroup], name: str, value: Any) -> None:
    """Give a setting another default, here and in the processes started from here."""
    if group.source(name, DJANGO_SETTINGS) == "default":
        apply_command_line({name: value})
