"""What a person may do, each recorded: retry, cancel, pause, edit limits, batches, undo."""
