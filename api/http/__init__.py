"""What every request passes: authentication, body, headers, idempotency, errors.

Called by `create_app`. It must never know a route."""
