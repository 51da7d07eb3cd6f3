"""Administration without `await`."""
