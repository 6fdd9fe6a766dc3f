"""Analyse a paper: by a language model, or by selecting its own sentences."""
