"""The checks of `manage.py doctor`, a module a subject. Each misconfiguration they find is a row of
docs/doctor.md, which a test makes and sees found."""
