"""What every module may use and which knows no queue: errors, configuration, SQL, locks, text."""
