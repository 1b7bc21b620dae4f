"""`python -m smpgnn`."""

from smpgnn.cli.main import main

main()
