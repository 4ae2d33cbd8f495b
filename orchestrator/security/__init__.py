"""Access tokens: create, verify, list and revoke them; each has tenants and scopes.

Called by `api`, the command line and `pipeweave up`. This room says what a token allows; it must never decide
which scope a request needs."""
