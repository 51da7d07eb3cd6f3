"""The driver of `raft/`: its log and snapshots on disk, its file, its timers and its requests."""
