"""The rules of a job's life, for engines that keep their data in tables. An engine brings the statements."""
