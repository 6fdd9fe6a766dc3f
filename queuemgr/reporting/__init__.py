"""Questions that only read: why it waits, how far, how fast, what failed."""
