"""Schemas with the fields of a row that people set, and with figures, made of their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninja import Field, Schema
from pydantic import create_model

from queuemgr.models.settable import SettableField
from queuemgr.reporting.allowances import Figure
from queuemgr.web.api.schemas import PRINTABLE


def with_values(name: str, base: type[Schema], fields: Mapping[str, SettableField]) -> type[Schema]:
    """`base` with the values of these fields, of which it may have some that it shows in another form."""
    shown = {
        field.name: (_type(field), Field(description=field.meaning))
        for field in fields.values()
        if field.name not in base.model_fields
    }
    return create_model(name, __base__=base, __doc__=base.__doc__, **shown)  # type: ignore[call-overload, no-any-return]  # names are known at run time only


def with_edits(name: str, base: type[Schema], fields: Mapping[str, SettableField]) -> type[Schema]:
    """`base` with these fields, each of which may be sent."""
    sent = {
        field.name: (_type(field) | None, Field(None, description=field.meaning, **_bounds(field)))
        for field in fields.values()
    }
    return create_model(name, __base__=base, __doc__=base.__doc__, **sent)  # type: ignore[call-overload, no-any-return]  # names are known at run time only


def with_figures(name: str, base: type[Schema], figures: Mapping[str, Figure]) -> type[Schema]:
    """`base` with these figures."""
    shown = {
        each: (figure.type, Field(description=f"{figure.meaning[0].upper()}{figure.meaning[1:]}."))
        for each, figure in figures.items()
    }
    return create_model(name, __base__=base, __doc__=base.__doc__, **shown)  # type: ignore[call-overload, no-any-return]  # names are known at run time only


def _type(field: SettableField) -> Any:
    kind: Any = int if field.is_number else str
    return kind | None if field.may_be_none else kind


def _bounds(field: SettableField) -> dict[str, Any]:
    if field.is_number:
        least, most = field.range
        return {"ge": least, "le": most}
    return {"max_length": field.longest, "pattern": PRINTABLE}
