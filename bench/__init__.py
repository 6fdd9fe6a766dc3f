"""Throughput beside plain Celery, and what a dispatch, a limit and a fault cost."""
