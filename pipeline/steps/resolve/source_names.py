"""The names of the sources, for the settings that list them."""

FOR_DOIS = ("unpaywall", "crossref", "openalex", "semanticscholar")
"""Names that `ResolveOptions.order` may contain."""

FOR_METADATA = (*FOR_DOIS, "arxiv")
"""Names of those that may be asked about an identifier that a paper prints."""
