"""A client for OpenAI-compatible chat endpoints."""
