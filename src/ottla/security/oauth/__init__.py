"""OAUTHBEARER, the side that signs in: which token it shows, and where that comes from."""
