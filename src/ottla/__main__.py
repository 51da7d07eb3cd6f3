"""`python -m ottla`: the command, where it is not on the path."""

from ottla_command import main

main()
