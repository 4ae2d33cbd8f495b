"""Requests and answers of the API: models, parameters, examples. OpenAPI is built from them.

Called by `api/http` and `api/routes`. It must never touch the database."""
