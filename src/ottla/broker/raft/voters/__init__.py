"""The set of voters, its history, and its changes."""
