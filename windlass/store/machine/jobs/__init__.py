"""Jobs in the tables: accepted, moved, expired, recovered, changed by hand."""
