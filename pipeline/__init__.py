"""The reference application: papers are found, fetched, read, analysed and reported."""
