"""Items on shelves, logs, and the commit that changes both together with jobs."""
