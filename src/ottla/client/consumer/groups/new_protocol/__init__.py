"""Groups of the new protocol (KIP-848): the coordinator assigns the partitions."""
