"""`python -m bunny_engine` is `bunny-engine`."""

from bunny_engine.cli import main

main()
