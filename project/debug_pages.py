"""Django's reports of exceptions, such as its debug page, without secrets.

Django hides settings and headers by their names. These mask known secrets wherever they are: in values of
settings, in local variables, in requests, in the environment and in the message of the exception itself.
"""

from __future__ import annotations

from pprint import pformat
from types import FrameType
from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils.safestring import SafeString, mark_safe
from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

from queuemgr.base.redaction import describe_error, without_secrets


class Shown:
    """What a value looks like to a person, without secrets; a report prints it as it is."""

    def __init__(self, value: object) -> None:
        try:
            self._text = without_secrets(pformat(value))
        except Exception as error:  # a `__repr__` of anybody
            self._text = without_secrets(describe_error(error))

    def __repr__(self) -> str:
        return self._text


class MaskingFilter(SafeExceptionReporterFilter):
    """Masks known secrets in all it is asked for; what Django hides by its name stays hidden, on debug pages
    too."""

    def is_active(self, request: HttpRequest | None) -> bool:
        return True

    def cleanse_setting(self, key: int | str, value: Any) -> Any:
        cleansed = super().cleanse_setting(key, value)
        if isinstance(cleansed, str):
            return without_secrets(cleansed)
        plain = cleansed is None or isinstance(cleansed, bool | int | float | dict | list | tuple)
        return cleansed if plain else Shown(cleansed)

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        """All values of each parameter, masked."""
        given: Any = super().get_post_parameters(request)
        masked = QueryDict(mutable=True)
        for name in given:
            values = given.getlist(name) if isinstance(given, QueryDict) else [given[name]]
            masked.setlist(without_secrets(name), [without_secrets(str(value)) for value in values])
        return masked

    def get_traceback_frame_variables(self, request: Any, tb_frame: FrameType) -> Any:
        variables = dict(super().get_traceback_frame_variables(request, tb_frame))
        return {name: Shown(value) for name, value in variables.items()}.items()


class MaskedReporter(ExceptionReporter):
    """The report as a page and as text, masked as a whole: the message of an exception may quote a secret."""

    def get_traceback_html(self) -> SafeString:
        return mark_safe(without_secrets(super().get_traceback_html()))  # noqa: S308 - Django made the page

    def get_traceback_text(self) -> SafeString:
        return mark_safe(without_secrets(super().get_traceback_text()))  # noqa: S308 - as above
