"""The style of the admin: style sheets and the CSS classes that our pages are built from.

Every page is laid out by django-unfold: `ReadOnlyAdmin` and the inlines derive from its classes, other
pages extend "admin/base_site.html" and fill `{% block content %}` with plain HTML. Such pages need only
these classes of static/queuemgr/admin.css, which every page loads; they follow light and dark mode and
work without JavaScript:

- `sg-card`: a box; its first `<h2>` or `<h3>` is its heading. Side by side: `<div class="sg-cards">` around
  cards, `sg-card-wide` for one over the whole width. `sg-figure` within: a large number.
- `sg-table`: the *box* of a table, which scrolls if the table is wider than the screen:
  `<div class="sg-table" tabindex="0" role="region" aria-label="its content"><table>…`. `sg-number` on
  numeric cells.
- `sg-bar`: a gauge: `<div class="sg-bar" role="img" aria-label="7 of 10"><span
  style="width: 70%"></span></div>`, the span with `sg-good`, `sg-warn` or `sg-bad` if it needs a colour.
  Repeat the value as text.
- `sg-form`: a form, or a part of one: each field in a `<p>` or `<div>` with its `<label for>` above; `help`
  for a hint under it. Django's own rendering of a form (`{{ form.as_p }}`) fits.
- `sg-button`: a `<button>` or a link styled as one; `sg-main` for the primary one, `sg-danger` for what
  cannot be undone. Several in a row: `<div class="sg-buttons">`.
- `sg-quiet`, `sg-good`, `sg-warn`, `sg-bad`: text colours, never the only carrier of a meaning.
- `sg-link`: a link outside a card and a table. `sg-only-read`: only for screen readers.

The colours themselves are `--sg-ground`, `--sg-line`, `--sg-text`, `--sg-strong`, `--sg-quiet`, `--sg-link`,
`--sg-accent`, `--sg-good`, `--sg-warn`, `--sg-bad`, `--sg-track`, for SVG and the like.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.templatetags.static import static


def admin(request: HttpRequest) -> str:
    """The classes above; unfold links it on every page, as the next two."""
    return static("queuemgr/admin.css")


def layout(request: HttpRequest) -> str:
    """Menu, header and messages."""
    return static("queuemgr/layout.css")


def list_layout(request: HttpRequest) -> str:
    """Search, filters, actions and rows of lists."""
    return static("queuemgr/list_layout.css")


def favicon(request: HttpRequest) -> str:
    return static("queuemgr/sluicegate.svg")
