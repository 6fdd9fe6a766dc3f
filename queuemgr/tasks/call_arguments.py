"""A call of a function as the payload of an execution, and back.

Arguments are validated by the function's annotations when it is enqueued, stored as JSON by parameter
name, and read again by the same annotations before it runs. What has no annotation is stored as Celery's
JSON stores it: dates, decimals and UUIDs come back as what they were, tuples as lists.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import GenericAlias
from typing import Annotated, Any

from kombu.utils import json as celery_json
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticSerializationError

from queuemgr.base.errors import BadInput, ConfigurationError

EMPTY = inspect.Parameter.empty
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _as_stored(value: Any) -> Any:
    """JSON, with what JSON lacks tagged by its type. Raises `TypeError` for what cannot be stored."""
    return json.loads(celery_json.dumps(value))


def _as_given(stored: Any) -> Any:
    """What `_as_stored` was given; a value that never was stored is returned as it is."""
    return celery_json.loads(json.dumps(stored)) if isinstance(stored, dict | list) else stored


Untyped = Annotated[Any, PlainValidator(lambda value: value), PlainSerializer(_as_stored)]


class CallArguments:
    """The parameters of a function, which `name` names in messages.

    Annotations are read when they are first needed, so that they may name what is defined further below.
    """

    def __init__(self, name: str, function: Callable[..., Any], *, leave_out: Sequence[str] = ()) -> None:
        self.name, self._function = name, function
        given = inspect.signature(function)
        kept = [p for p in given.parameters.values() if p.name not in leave_out]
        self.signature = given.replace(parameters=kept)

    @property
    def where(self) -> str:
        """Where the function is, as it is imported."""
        return f"{self._function.__module__}.{self._function.__qualname__}"

    @property
    def is_of_coroutine(self) -> bool:
        """Whether its function is an `async def`."""
        return inspect.iscoroutinefunction(self._function)

    def is_of(self, function: Callable[..., Any]) -> bool:
        """Whether that is its function, perhaps of its module imported again."""
        return self.where == f"{function.__module__}.{function.__qualname__}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.signature.parameters)

    def payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The payload of this call, without what has its default. Raises `BadInput` for a call that the
        function would not take, or that cannot be stored."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadInput(f"{self.name}{self.signature}: {error}") from None
        try:
            model = self.model.model_validate(dict(bound.arguments))
            stored: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
        except ValidationError as error:
            raise BadInput(f"{self.name}: {_sentences(error)}") from None
        except (TypeError, ValueError) as error:  # what a serializer says of a value without a type
            raise BadInput(f"{self.name}: an argument cannot be stored as JSON ({error})") from None
        return stored

    def stored(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Some arguments as a payload holds them. Raises `BadInput` for those that it does not take."""
        if unknown := set(arguments) - set(self.names):
            raise BadInput(f"{self.name}{self.signature} has no parameter {', '.join(sorted(unknown))}")
        parameters = {p.name: (number, p) for number, p in enumerate(self.signature.parameters.values())}
        kinds = {name: TypeAdapter(self._kind_of(*parameters[name])) for name in arguments}
        try:
            return {
                name: kind.dump_python(kind.validate_python(arguments[name]), mode="json")
                for name, kind in kinds.items()
            }
        except ValidationError as error:
            raise BadInput(f"{self.name}: {_sentences(error)}") from None

    def call(self, payload: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional and the named arguments of a stored call.

        Raises `BadInput` for a payload that this function, which may have changed since, does not take.
        """
        try:
            model = self.model.model_validate(dict(payload))
        except ValidationError as error:
            raise BadInput(f"{self.name} does not take this payload: {_sentences(error)}") from None
        bound = self.signature.bind_partial()
        try:
            for number, name in enumerate(self.names):
                if _field(number) in model.model_fields_set:
                    bound.arguments[name] = self._given(number, getattr(model, _field(number)))
        except (TypeError, ValueError) as error:  # a tag of a type that there is not
            raise BadInput(f"{self.name} does not take this payload: {error}") from None
        return list(bound.args), dict(bound.kwargs)

    def with_defaults(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload with the defaults of the parameters that it does not name."""
        defaults = {n: p.default for n, p in self.signature.parameters.items() if p.default is not EMPTY}
        return {**defaults, **payload}

    def store_result(self, returned: Any) -> Any:
        """What the function returned, as JSON. Raises `TypeError` or `ValueError` for what cannot be."""
        if self._returns is None:
            return _as_stored(returned)
        try:
            return self._returns.dump_python(returned, mode="json", warnings="error")
        except PydanticSerializationError:
            stated = self.signature.return_annotation
            shown = stated if isinstance(stated, str) else getattr(stated, "__name__", stated)
            raise TypeError(f"a {type(returned).__name__}, and its annotation says {shown}") from None

    def read_result(self, stored: Any) -> Any:
        """What the function returned, as its annotation says."""
        return _as_given(stored) if self._returns is None else self._returns.validate_python(stored)

    def check(self) -> None:
        """Raise `ConfigurationError` for an annotation of what cannot be stored as JSON.

        While annotations name what is defined further below, this is left to the first call.
        """
        stated = inspect.get_annotations(inspect.unwrap(self._function)).values()
        if not any(_is_unknown(annotation, self._names) for annotation in stated):
            self.model, self._returns  # noqa: B018  # built now

    def unreadable(self) -> list[str]:
        """The parameters whose annotation is not known at run time, and `return` if its is not."""
        stated = inspect.get_annotations(inspect.unwrap(self._function))
        known = (*self.names, "return")
        return [name for name in known if name in stated and _is_unknown(stated[name], self._names)]

    @property
    def module(self) -> str:
        """Where the function is."""
        return str(inspect.unwrap(self._function).__module__)

    def _given(self, number: int, value: Any) -> Any:
        return _as_given(value) if number in self._untyped else value

    @cached_property
    def _untyped(self) -> frozenset[int]:
        annotations = self._annotations
        return frozenset(n for n, name in enumerate(self.names) if annotations[name] in (EMPTY, Any))

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        """By parameter, and of `return`."""
        signature, names = self.signature, self._names
        found = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        found["return"] = signature.return_annotation
        return {name: _evaluated(annotation, names) for name, annotation in found.items()}

    @property
    def _names(self) -> dict[str, Any]:
        """What annotations may name."""
        names: dict[str, Any] = getattr(inspect.unwrap(self._function), "__globals__", {})
        return names

    @cached_property
    def model(self) -> type[BaseModel]:
        """Of payloads: a field for each parameter, named by number: it may have a name that models use."""
        fields: dict[str, Any] = {
            _field(number): self._field_of(number, parameter)
            for number, parameter in enumerate(self.signature.parameters.values())
        }
        config = ConfigDict(extra="forbid", hide_input_in_errors=True)
        return create_model(self.name.replace(".", "_"), __config__=config, **fields)

    def _field_of(self, number: int, parameter: inspect.Parameter) -> tuple[Any, Any]:
        kind = self._kind_of(number, parameter)
        self._check_kind(parameter.name, kind)
        required = parameter.default is EMPTY and parameter.kind not in VARIADIC
        return kind, Field(... if required else None, alias=parameter.name)

    def _kind_of(self, number: int, parameter: inspect.Parameter) -> Any:
        kind = Untyped if number in self._untyped else self._annotations[parameter.name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return GenericAlias(list, (kind,))
        return GenericAlias(dict, (str, kind)) if parameter.kind is inspect.Parameter.VAR_KEYWORD else kind

    def _check_kind(self, name: str, kind: Any) -> None:
        try:
            TypeAdapter(kind)
        except PydanticSchemaGenerationError:
            shown = getattr(kind, "__name__", str(kind))
            raise ConfigurationError(
                f"{self.name}: {name!r} is a {shown}, which cannot be stored as JSON; pass what finds it "
                "again, such as its primary key"
            ) from None

    @cached_property
    def _returns(self) -> TypeAdapter[Any] | None:
        annotation = self._annotations["return"]
        if annotation in (EMPTY, Any):
            return None
        self._check_kind("return", annotation)
        return TypeAdapter(annotation)


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """The type it names; none where that is not known at run time, such as one imported for type checkers."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)  # noqa: S307  # source code, as for typing.get_type_hints
    except Exception:
        return EMPTY


def _is_unknown(annotation: Any, names: dict[str, Any]) -> bool:
    return isinstance(annotation, str) and _evaluated(annotation, names) is EMPTY


def _field(number: int) -> str:
    return f"field_{number}"


def _sentences(error: ValidationError) -> str:
    """As `host: Field required; count: Input should be a valid integer, not list`, without the values."""
    problems = error.errors(include_url=False, include_input=True, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}{_instead(problem)}" for problem in problems
    )


def _instead(problem: Mapping[str, Any]) -> str:
    """Of which type it was, where that is what was wrong; no more of the value, which may be a secret."""
    if not problem["type"].endswith("_type"):
        return ""
    given = problem["input"]
    hint = "; pass its primary key" if hasattr(type(given), "_meta") else ""
    return f", not {type(given).__name__}{hint}"
