"""What a program can tell others of its jobs: metrics for Prometheus, alert rules, traces."""
