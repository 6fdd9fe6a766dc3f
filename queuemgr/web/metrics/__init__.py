"""Metrics for Prometheus, read from the database at each scrape.

Nothing is kept in a process, so that any number of web processes give the same answer, and what is
told is what the rows say.
"""
