"""Signs in with OAUTHBEARER tokens: makes them, or gets them and keeps them fresh."""
