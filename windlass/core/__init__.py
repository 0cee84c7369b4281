"""Pure values and decisions: no I/O, no asyncio, no clock, no randomness of its own."""
