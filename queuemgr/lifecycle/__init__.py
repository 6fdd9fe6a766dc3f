"""One execution from enqueue to its end: every module is a verb that writes."""
