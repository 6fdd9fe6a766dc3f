"""Functions as queued tasks: the decorator `@queued`, Celery's and Django's ways to enqueue, and handles."""
