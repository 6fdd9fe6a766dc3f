"""What a person may do, each in the audit log: retry, cancel, pause, edit limits, batches, bulk actions,
undo, users and API tokens."""
