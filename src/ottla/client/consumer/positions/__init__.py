"""Where a consumer reads: it finds, checks and resets positions."""
