"""`python -m pipeweave.cli`: the same command where no script is on the PATH."""

from pipeweave.cli import main

main(prog_name="pipeweave")
