"""Errors, settings, SQL, locks and text: what every package may use and what knows no queue."""
