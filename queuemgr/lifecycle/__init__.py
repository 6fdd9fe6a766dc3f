"""One execution from enqueue to its end: the verbs that write it, and the rules they follow."""
