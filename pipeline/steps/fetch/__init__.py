"""Download a PDF, resuming after cuts, or copy a local file."""
