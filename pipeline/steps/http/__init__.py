"""The HTTP client of the steps: SSRF-safe, bounded, one per process."""
