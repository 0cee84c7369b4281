"""What a caller or an operator holds of something in the store: of a job, its result, and a gate."""
