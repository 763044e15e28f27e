"""`python -m bunny_probe` is `bunny-probe`."""

from bunny_probe.cli import main

main()
