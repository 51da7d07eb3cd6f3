"""`ottla demo`: card payments through a broker and Spark, checked to the last cent at the end."""
