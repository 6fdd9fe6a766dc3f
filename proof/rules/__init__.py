"""The rules of the checker, one subject a file; none imports the code it checks."""
