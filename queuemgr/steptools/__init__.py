"""For a step's own code, without Django or Celery: ordered parallel map, lanes, child processes."""
