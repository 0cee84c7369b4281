"""What runs the trials: environments, processes, backlogs, rounds. Standard library only, imports no peer."""
