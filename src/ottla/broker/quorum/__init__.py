"""The driver of `raft/`: its log and snapshots on disk, its state file, timers and requests."""
