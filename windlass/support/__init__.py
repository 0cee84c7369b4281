"""What the other rooms stand on: the portal thread, guarded requests, failpoints, log lines, schemas."""
