"""For the other compiled modules alone."""
