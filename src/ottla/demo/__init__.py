"""`ottla demo`: card payments through a cluster and Spark, checked to the last cent."""
