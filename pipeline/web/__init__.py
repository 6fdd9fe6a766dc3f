"""The web pages of papers: the admin, the collection, and reports."""
