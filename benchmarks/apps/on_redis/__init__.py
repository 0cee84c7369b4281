"""Job systems on Redis. The server's address comes in BENCH_URL, what the jobs do in BENCH_WORK."""
