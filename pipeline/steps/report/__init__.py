"""Render the report on a paper as Markdown and JSON."""
