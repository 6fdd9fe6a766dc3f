"""What stands around each view of our pages, on whichever site they are.

So our pages need no middleware of ours: requests that nobody makes by clicking end as 400 or 404, a scheduler
lock that stays busy as 503, and addresses lead to the site that was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.views.defaults import bad_request

from queuemgr.base import transaction
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import SchedulerLockBusy
from queuemgr.operations import user_model
from queuemgr.web import busy_lock, crafted_requests, links

View = Callable[..., Any]


def around(view: View, site: AdminSite) -> View:
    """The view of a page of this site, with all that."""

    @wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        links.asked_of(site)
        request.current_app = site.name
        user_model.completed(request.user)
        try:
            crafted_requests.refuse(request, getattr(view, "model_admin", None))
            response: HttpResponseBase = view(request, *args, **kwargs)
        except SchedulerLockBusy as error:
            response = busy_lock.answer(error)
            _undo_request()
        except OverflowError as error:  # SQLite's driver takes no number of more than 64 bits
            response = bad_request(request, error)
            _undo_request()
        except BaseException:
            links.asked_of(None)
            raise
        return _until_rendered(_framed(response, site))

    return respond


def _undo_request() -> None:
    """The exception would have rolled back the transaction that `ATOMIC_REQUESTS` makes of a request."""
    if connection.settings_dict.get("ATOMIC_REQUESTS") and connection.in_atomic_block:
        transaction.set_rollback(True)


def _framed(response: HttpResponseBase, site: AdminSite) -> HttpResponseBase:
    """With the templates of the site, if it has some of its own."""
    choose = getattr(site, "own_template", None)
    if choose and isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        response.template_name = choose(response.template_name)
    return response


def _until_rendered(response: HttpResponseBase) -> HttpResponseBase:
    """Templates are rendered after the view has ended, and ask for addresses as well."""
    if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        response.add_post_render_callback(lambda _: links.asked_of(None))
    else:
        links.asked_of(None)
    return response
