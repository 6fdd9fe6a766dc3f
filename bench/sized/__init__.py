"""A project like an adopter's, whose workers `bench.sizing` measures: one app, PostgreSQL, Redis."""
