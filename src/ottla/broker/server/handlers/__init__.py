"""A module per API: `handle(context, request)` returns the response, a `Pending` or a coroutine."""
