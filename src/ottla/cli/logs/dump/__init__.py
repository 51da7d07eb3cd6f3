"""Reads the files of a data folder for `ottla dump-log`: a stream of items for each file.

An item is a mapping with a `type`; an item of type `problem` says what is wrong with the file.
"""
