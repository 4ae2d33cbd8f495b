"""`python -m pipeweave.cli`: run the `pipeweave` command without a script on the PATH."""

from pipeweave.cli import main

main(prog_name="pipeweave")
