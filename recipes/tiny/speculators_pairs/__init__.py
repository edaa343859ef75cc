"""Four more drafters for the tiny target, trained and saved by the `speculators` library."""
