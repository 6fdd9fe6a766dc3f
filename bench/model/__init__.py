"""A project whose tasks send requests to a model, measured by `bench.provider`."""
