"""The clients of `ottla` for programs without asyncio: the same names, no `await`."""
