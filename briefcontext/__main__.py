"""`python -m briefcontext`."""

from briefcontext.cli import main

main()
