"""Client quotas: whose budget a client draws on, what is left of it, and how long it must wait.

Pure: the server says who did what when, and obeys the answer.
"""
