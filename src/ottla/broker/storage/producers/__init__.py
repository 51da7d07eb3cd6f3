"""The state of idempotent and transactional producers in a log."""
