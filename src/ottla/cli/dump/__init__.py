"""Reading the files of a data folder for `ottla dump-log`: a stream of items for each file.

An item is a mapping with a `type`; one of type `problem` says what is wrong with the file.
"""
