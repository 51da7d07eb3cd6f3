"""Administration: whatever the tools do."""
