"""Admin pages of this installation: users and groups with an audit log, and Celery's results."""

from __future__ import annotations

from project.admin import celery_results, users

__all__ = ("celery_results", "users")
