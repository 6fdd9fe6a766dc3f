"""A worker process: Celery task base, group commit, heartbeat, registration, periodic jobs."""
