"""Prometheus metrics, read from the database at each scrape, so that all web processes agree."""
