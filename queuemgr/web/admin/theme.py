"""The look of the admin: the theme's own style sheet, and the classes pages of ours are built from.

Every page stands in django-unfold's frame: `KeptAdmin` and the inlines derive from its classes, pages of
their own extend "admin/base_site.html" and fill `{% block content %}` with plain HTML. These classes of
queuemgr/static/queuemgr/cockpit.css, which every page loads, are all such a page needs; they follow light
and dark, and need no JavaScript:

- `sg-card`: a box; its first `<h2>` or `<h3>` is its heading. Side by side: `<div class="sg-cards">` around
  cards, `sg-card-wide` for one over the whole width. `sg-figure` within: a large number.
- `sg-table`: the *box* of a table, which scrolls when the table is wider than the screen:
  `<div class="sg-table" tabindex="0" role="region" aria-label="what it holds"><table>…`. `sg-number` on the
  cells of a column of numbers.
- `sg-bar`: how full something is: `<div class="sg-bar" role="img" aria-label="7 of 10"><span
  style="width: 70%"></span></div>`, the span perhaps `sg-good`, `sg-warn` or `sg-bad`. Say the figure in
  text beside it.
- `sg-form`: a form, or a part of one: each field in a `<p>` or `<div>` with its `<label for>` above; `help`
  for a hint under it. Django's own rendering of a form (`{{ form.as_p }}`) fits.
- `sg-button`: a `<button>` or a link like one; with `sg-main` the one to be pressed, with `sg-danger` what
  cannot be taken back. Several in a row: `<div class="sg-buttons">`.
- `sg-quiet`, `sg-good`, `sg-warn`, `sg-bad`: colours of text, never the only sign of what they mean.
- `sg-link`: a link outside a card and a table. `sg-only-read`: for screen readers alone.

The colours themselves are `--sg-ground`, `--sg-line`, `--sg-text`, `--sg-strong`, `--sg-quiet`, `--sg-link`,
`--sg-accent`, `--sg-good`, `--sg-warn`, `--sg-bad`, `--sg-track`, for SVG and the like.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.templatetags.static import static


def cockpit(request: HttpRequest) -> str:
    """The address of the classes above; unfold puts it into the head of every page."""
    return static("queuemgr/cockpit.css")


def frame(request: HttpRequest) -> str:
    """The address of what frames every page: menu, header, messages."""
    return static("queuemgr/frame.css")


def list_frame(request: HttpRequest) -> str:
    """The address of what every list shares: search, filters, actions, rows."""
    return static("queuemgr/list_frame.css")


def favicon(request: HttpRequest) -> str:
    """The address of the picture a browser shows in its tab."""
    return static("queuemgr/sluicegate.svg")
