"""A form that asks why, for rows whose edits are kept in the record of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Any]
else:
    _ModelForm = forms.ModelForm


class ReasonForm(_ModelForm):
    reason = forms.CharField(
        max_length=200,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Why; kept in the record of changes.",
    )

    def figures(self, *names: str) -> dict[str, Any]:
        """Those of these figures the person changed; of a new row, all."""
        new = self.instance.pk is None
        return {n: self.cleaned_data[n] for n in names if new or n in self.changed_data}
