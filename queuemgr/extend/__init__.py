"""What an application's own settings, models, admin pages and commands are built of; one module each."""
