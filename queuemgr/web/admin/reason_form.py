"""A form with a reason, for rows whose edits are recorded in the audit log."""

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
        help_text="Recorded in the audit log.",
    )

    def changed_values(self, *names: str) -> dict[str, Any]:
        """The fields among `names` that were changed; all of them for a new row."""
        new = self.instance.pk is None
        return {n: self.cleaned_data[n] for n in names if new or n in self.changed_data}
