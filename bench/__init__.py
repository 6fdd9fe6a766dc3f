"""Side by side with plain Celery: throughput, and how long a freed slot stays idle."""
