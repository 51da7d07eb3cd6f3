"""`python -m ottla`: the command, where it is not on the path."""

from ottla.cli.main import main

main()
