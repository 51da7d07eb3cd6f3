"""The keys and values of the records in the coordinators' internal topics."""
