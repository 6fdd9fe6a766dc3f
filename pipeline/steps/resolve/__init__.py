"""Find where the PDF of a paper is, and its metadata."""
