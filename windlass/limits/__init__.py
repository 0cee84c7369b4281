"""What holds jobs and code up: gates, breakers, locks, and blocks that run once."""
