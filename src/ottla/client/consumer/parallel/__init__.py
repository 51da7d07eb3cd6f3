"""`consumer.process`: many records at the same time, those of one key in order."""
