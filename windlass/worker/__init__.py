"""The worker: claims jobs, runs them on the loop, in threads and in child processes, and settles their outcomes."""
