"""Groups of the classic protocol: the members assign the partitions themselves."""
