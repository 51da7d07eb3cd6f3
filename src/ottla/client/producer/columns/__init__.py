"""`send_arrow`: sends rows of Arrow data."""
