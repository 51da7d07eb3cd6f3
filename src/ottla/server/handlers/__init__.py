"""One module an API: `handle(context, request)` gives the response, a `Pending` or a coroutine."""
