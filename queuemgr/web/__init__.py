"""A Django app of its own: admin pages, HTTP API, metrics and health."""
