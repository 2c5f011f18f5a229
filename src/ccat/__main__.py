"""`python -m ccat` is the `ccat` command."""

from ccat.cli import main

main()
