"""A whole fleet on one machine, and the doctor that looks at it."""
