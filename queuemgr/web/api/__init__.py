"""The HTTP API, a module per resource; routes check permissions and call `queuemgr.operations`."""
