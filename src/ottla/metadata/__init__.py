"""The cluster's metadata: the records of its log, the image they add up to, who is told of a change."""
