"""Begins a box: hear what it may use, confine the process, say so, and answer calls."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from pipeweave.box import box_logs, egress
from pipeweave.box.channel import Channel
from pipeweave.box.confine import Confinement, ConfinementFailed, confine
from pipeweave.box.serving import Serving


def main() -> None:
    """Serve on the socket whose descriptor is the first argument."""
    descriptor = int(sys.argv.pop())
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor))
    setup = channel.hear()
    tmp = None if setup["tmp"] is None else Path(setup["tmp"])
    roots = tuple(Path(each) for each in setup["code_roots"])
    readable = tuple(Path(each) for each in setup["readable"])
    sys.path[:0] = [str(each) for each in roots]
    sys.dont_write_bytecode = True
    try:
        abi = confine(Confinement(setup["memory"], tmp, roots, readable, setup["parent"]))
    except ConfinementFailed as error:
        channel.say({"unconfined": str(error)})
        os._exit(1)
    channel.say({"confined": abi})
    sender = box_logs.install(channel, setup["level"])
    egress.install(channel, setup["hosts"])
    Serving(channel, setup, sender).serve()


main()
