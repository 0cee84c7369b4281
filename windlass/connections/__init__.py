"""The ways of this process to its store: one client for each event loop, which gathers calls and waits for results."""
