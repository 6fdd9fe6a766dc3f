"""The queue's migrations as a release after this one might have them: an upgrade to test with."""
