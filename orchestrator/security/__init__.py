"""Who may ask: access tokens, their tenants and scopes.

Called by `api` and the command line. It must never decide what a request does."""
