"""Read the text layer of a PDF, and its list of references."""
