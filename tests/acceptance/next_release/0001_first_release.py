from importlib import import_module

Migration = import_module("queuemgr.migrations.0001_first_release").Migration
