"""What coordinators store in their internal topics: keys and values."""
