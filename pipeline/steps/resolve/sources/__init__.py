"""The metadata sources: arXiv, Unpaywall, Crossref, OpenAlex and Semantic Scholar."""
