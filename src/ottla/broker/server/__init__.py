"""The request path: a frame arrives, is served by one handler, and its answer leaves in order."""
