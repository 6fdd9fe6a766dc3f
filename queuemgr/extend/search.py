"""For things of an application that the search box of the admin shall find, with `queue search` and the API.

    @search_provider("Orders", permission="shop.view_order")
    def orders(text: str, at_most: int) -> Iterable[Found]:
        rows = Order.objects.filter(number__startswith=text)[: at_most + 1]
        return [Found(row.number, row.customer, "shop_order_change", (row.pk,)) for row in rows]

Put it into a module `queue_search` of the application, which is imported by the first search. `Found` is a
name, what else is said of it, and the admin page it leads to. The search stops a statement after 0.8 s: what
it reads should have an index.
"""

from queuemgr.reporting.search.found import Found, search_provider

__all__ = ["Found", "search_provider"]
