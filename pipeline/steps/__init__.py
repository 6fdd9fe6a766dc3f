"""The steps of the papers flow as plain Python, without Django and Celery: one package a step."""
