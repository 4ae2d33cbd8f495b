"""A shop for charge_orders.py: it has three orders each day, and the bank refuses the card of the last one.

`python shop_service.py` serves http://127.0.0.1:8099 until Ctrl-C; with `--takes stolen` the bank takes that
card, too.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ORDERS = [
    {"id": "o-1", "amount": "150.25", "card": "gold"},
    {"id": "o-2", "amount": "2500.00", "card": "silver"},
    {"id": "o-3", "amount": "30.00", "card": "stolen"},
]
REFUSED = {"stolen"}


class Shop(BaseHTTPRequestHandler):
    """Lists orders, and charges them."""

    def do_GET(self) -> None:
        self._answer(200, ORDERS)

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if order["card"] in REFUSED:
            self._answer(422, {"error": f"the card {order['card']} is refused"})
        else:
            self._answer(200, {})

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--takes", action="append", default=[], metavar="CARD")
    REFUSED -= set(parser.parse_args().takes)
    with ThreadingHTTPServer(("127.0.0.1", 8099), Shop) as server:
        server.serve_forever()
