"""The quick starts of six task queues for Django, followed and counted alike: docs/quick_starts.md."""
