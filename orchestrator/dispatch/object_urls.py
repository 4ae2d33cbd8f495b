"""Makes and checks URLs of single objects, for workers that see no credentials of a storage backend.

Where the backend can sign URLs itself, its own are given; else the API serves the object
(`/api/objects?…`), with a signature of ours over method, backend, path and time.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import urlencode

from pipeweave.errors import Unauthenticated
from pipeweave.key_ring import first_key, keys_of
from pipeweave.storage.backends import Backends
from pipeweave.storage.base import Method

PATH = "/api/objects"
_PURPOSE = b"pipeweave object urls"
# No URL is valid for longer (s): Amazon signs none for more than seven days.
LONGEST_S = 7 * 24 * 3600
# A URL outlives the attempt that it was made for by so long (s).
LEEWAY_S = 600


@dataclass(frozen=True, slots=True)
class ObjectUrls:
    """Makes the URLs of one attempt.

    Args:
        secret: the deployment's PIPEWEAVE_SECRET_KEY.
        seconds: how long they are valid.
        now: PostgreSQL's clock (s since the epoch).
    """

    backends: Backends
    secret: str
    backend: str
    seconds: int
    now: float

    @classmethod
    def for_attempt(
        cls, backends: Backends, secret: str, backend: str, timeout: float, now: float
    ) -> ObjectUrls:
        """The URLs of an attempt that may take `timeout` (s)."""
        return cls(backends, secret, backend, int(min(timeout + LEEWAY_S, LONGEST_S)), now)

    def get(self, path: str) -> str:
        """A URL to read an object; one that begins with a slash is below the orchestrator's URL."""
        return self._url("GET", path)

    def put(self, path: str) -> str:
        """A URL to write an object."""
        return self._url("PUT", path)

    @property
    def expires_at(self) -> float:
        """When they expire (s since the epoch)."""
        return self.now + self.seconds

    def _url(self, method: Method, path: str) -> str:
        storage = self.backends.get(self.backend)
        signed = storage.presign(path, method=method, seconds=self.seconds)
        return signed or own_url(self.secret, method, self.backend, path, int(self.expires_at))


def own_url(secret: str, method: str, backend: str, path: str, expires: int) -> str:
    """The URL of an object that the API serves."""
    signature = _signature(first_key(secret), method, backend, path, expires)
    return (
        f"{PATH}?{urlencode([('backend', backend), ('path', path), ('expires', expires)], safe='/~:@')}"
        + (f"&signature={signature}")
    )


def check(
    secret: str, method: str, backend: str, path: str, expires: int, signature: str, now: float
) -> None:
    """Check a URL that the API gets.

    Raises:
        Unauthenticated: it was not made for this request, or has expired.
    """
    made = [_signature(each, method, backend, path, expires) for each in keys_of(secret)]
    if not any([hmac.compare_digest(signature.encode(), each.encode()) for each in made]):
        raise Unauthenticated("the URL of the object was not signed for this request")
    if now > expires:
        raise Unauthenticated("the URL of the object has expired")


def _signature(secret_key: str, method: str, backend: str, path: str, expires: int) -> str:
    key = hmac.digest(secret_key.encode(), _PURPOSE, hashlib.sha256)
    signed = "\n".join((method, backend, path, str(expires)))
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()
