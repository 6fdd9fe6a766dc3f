"""Form fields for payloads, made of the types that their flow declares.

A field left empty is left out of the payload, so that its default holds. Members without a field of their own
are edited as JSON. What is shown of a stored payload is masked, and kept where it is left as shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from django import forms

from queuemgr.base.errors import BadInput, BadPayload, SluiceError
from queuemgr.base.safe_text import json_problem
from queuemgr.flows import payload_validation
from queuemgr.web.admin.payload_members import KINDS, Member, Members

if TYPE_CHECKING:
    _Form = forms.Form
else:
    _Form = object

PREFIX, OTHERS = "member-", "other-members"
"""Names of fields: a member of a payload may be called as a field of the form is."""

LONGEST_LINE = 200
LEFT_OUT = object()

AnyForm = TypeVar("AnyForm", bound=forms.Form)


def with_why_not(form: AnyForm, members: Members) -> AnyForm:
    """A form of one field for the payload, which says why there is not one for each member."""
    form.fields["payload"].help_text = " ".join(filter(None, ("A JSON object.", members.why_not)))
    return form


class MemberField(forms.CharField):
    """One member, as a person types it. What is left as `shown` stays what it was `before`."""

    def __init__(self, member: Member, shown: str = "", before: Any = LEFT_OUT) -> None:
        self.member, self.shown, self.before = member, shown.replace("\r\n", "\n"), before
        super().__init__(
            label=member.name,
            required=False,
            strip=False,
            help_text=member.help_text,
            widget=_widget(member, shown),
        )

    def clean(self, value: Any) -> Any:
        """Its value, or `LEFT_OUT`; raises `ValidationError` with a sentence."""
        text: str = super().clean(value).replace("\r\n", "\n")  # as browsers send a line's end
        if self.before is not LEFT_OUT and text == self.shown:
            return self.before
        if text == "":
            return LEFT_OUT
        try:
            return _value(self.member, text)
        except BadInput as error:
            raise forms.ValidationError(str(error)) from None


def _widget(member: Member, shown: str) -> forms.Widget:
    if member.choices or member.kind == "boolean":
        stated = [(str(one), str(one)) for one in member.choices] or [("true", "yes"), ("false", "no")]
        stored = [] if shown in ("", *(value for value, _ in stated)) else [(shown, shown)]
        return forms.Select(choices=[("", "(default)"), *stated, *stored])
    if member.kind in ("integer", "number"):
        return forms.TextInput(attrs={"inputmode": "decimal"})
    if member.kind == "string" and "\n" not in shown and len(shown) <= LONGEST_LINE:
        return forms.TextInput(attrs={"spellcheck": "false"})
    return forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "sg-code"})


def _value(member: Member, text: str) -> Any:
    for choice in member.choices:
        if str(choice) == text:
            return choice
    if member.kind == "string":
        return text
    if member.kind not in ("integer", "number"):
        return _json(text)
    try:
        number: float = json.loads(text.strip())
    except (ValueError, RecursionError):
        raise BadInput(f"Write {KINDS[member.kind]}.") from None
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if (
        not is_number
        or not (isinstance(number, int) or math.isfinite(number))
        or (member.kind == "integer" and not isinstance(number, int))
    ):
        raise BadInput(f"Write {KINDS[member.kind]}.")
    return number


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(json_problem(error)) from None
    return payload_validation.validate({"value": value})["value"]


class TypedPayload(_Form):
    """For forms with fields of a payload. `before` is the stored payload, as it is shown."""

    def __init__(self, *args: Any, members: list[Member], before: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.members, self.before = members, before
        shown = dict(self._shown())
        self.fields = {
            **{
                name: MemberField(one, shown.get(name, ""), before.get(one.name, LEFT_OUT))
                for one in members
                for name in (PREFIX + one.name,)
            },
            OTHERS: forms.CharField(
                required=False, strip=False, label="Other members", help_text="A JSON object.",
                widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "sg-code"}),
            ),
            **self.fields,
        }  # fmt: skip
        self.initial = {**shown, **self.initial}
        others = self._others()
        if not others and not self.is_bound:
            del self.fields[OTHERS]

    def _others(self) -> dict[str, Any]:
        known = {member.name for member in self.members}
        return {name: value for name, value in self.before.items() if name not in known}

    def _shown(self) -> Iterator[tuple[str, str]]:
        for member in self.members:
            if member.name in self.before:
                yield PREFIX + member.name, _as_typed(member, self.before[member.name])
        if others := self._others():
            yield OTHERS, json.dumps(others, indent=2, ensure_ascii=False, sort_keys=True)

    def clean(self) -> dict[str, Any]:
        """With the `payload` that the fields make."""
        payload: dict[str, Any] = {}
        if others := self.cleaned_data.get(OTHERS):
            try:
                payload = payload_validation.parse(others)
            except BadInput as error:
                self.add_error(OTHERS, str(error))
        for member in self.members:
            value = self.cleaned_data.get(PREFIX + member.name, LEFT_OUT)
            if value is LEFT_OUT and self._is_empty_text(member):
                value = ""
            if value is not LEFT_OUT:
                payload[member.name] = value
        self.cleaned_data["payload"] = payload
        return self.cleaned_data

    def _is_empty_text(self, member: Member) -> bool:
        """A text that was empty before, or that must be there, is not left out by leaving it empty."""
        return member.kind == "string" and (member.required or self.before.get(member.name) == "")

    def refused(self, error: SluiceError) -> None:
        """Say at the fields what is wrong with them."""
        at = error.fields if isinstance(error, BadPayload) else {}
        placed = {name: said for name, said in at.items() if PREFIX + name in self.fields}
        for name, said in placed.items():
            self.add_error(PREFIX + name, f"{said}.")
        if not placed:
            self.add_error(None, str(error))


def _as_typed(member: Member, value: Any) -> str:
    if isinstance(value, str) and (member.kind == "string" or value in member.choices):
        return value
    return json.dumps(value, ensure_ascii=False)
