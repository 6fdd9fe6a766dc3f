"""What stands around each view of our pages, on whichever site they are.

So our pages need no middleware of ours: requests that nobody makes by clicking end as 400 or 404, a scheduler
lock that stays busy as 503, addresses lead to the site that was asked, and times are in the zone of who
looks, as they say, whatever the time zone of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.template.response import SimpleTemplateResponse, TemplateResponse
from django.utils import timezone
from django.views.defaults import bad_request

from queuemgr.base import time_text, transaction
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import SchedulerLockBusy
from queuemgr.operations import user_model
from queuemgr.web import busy_lock, crafted_requests, links, viewers_zone

View = Callable[..., Any]


def around(view: View, site: AdminSite) -> View:
    """The view of a page of this site, with all that."""

    @wraps(view)
    def respond(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        end = ExitStack()
        zone = viewers_zone.zone_of(request)
        end.enter_context(timezone.override(zone))
        end.enter_context(time_text.in_zone_of_viewer(zone))
        end.callback(links.asked_of, None)
        links.asked_of(site)
        request.current_app = site.name
        user_model.completed(request.user)
        try:
            crafted_requests.refuse(request, getattr(view, "model_admin", None))
            response: HttpResponseBase = view(request, *args, **kwargs)
        except (PermissionDenied, Http404) as error:
            if not user_model.may_open_pages(request.user):
                end.close()
                raise
            response = _refused(request, site, error)
            _undo_request()
        except SchedulerLockBusy as error:
            response = busy_lock.answer(error)
            _undo_request()
        except OverflowError as error:  # SQLite's driver takes no number of more than 64 bits
            response = bad_request(request, error)
            _undo_request()
        except BaseException:
            end.close()
            raise
        return _until_rendered(_framed(response, site), end)

    return respond


def _refused(request: HttpRequest, site: AdminSite, error: Exception) -> HttpResponseBase:
    """A page in the frame of the site, for those who may see its menu."""
    status = 403 if isinstance(error, PermissionDenied) else 404
    context = {
        **site.each_context(request),
        "title": "You may not do this" if status == 403 else "There is no such page",
        "said": REFUSALS[status],
        "home": links.address_on(site, "index"),
    }
    return TemplateResponse(request, "admin/queuemgr/refused.html", context, status=status)


REFUSALS = {
    403: "Your account does not have the permission for it (403); whoever gives roles can give you one.",
    404: "Nothing is at this address, or no longer (404).",
}


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


def _until_rendered(response: HttpResponseBase, end: ExitStack) -> HttpResponseBase:
    """Templates are rendered after the view has ended, and ask for addresses and times as well."""
    if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        response.add_post_render_callback(lambda _: end.close())
    else:
        end.close()
    return response
