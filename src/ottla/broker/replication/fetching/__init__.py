"""The follower's side of replication: fetches from leaders."""
