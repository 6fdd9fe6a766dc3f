"""Has a GROBID server read the references of a paper, and reads its answer."""
