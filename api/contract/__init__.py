"""Models of the API's requests, query parameters and answers; the OpenAPI document is built from them.

Called by `api/http` and `api/routes`, which import from its modules. It must never read the database, call a
verb or know Flask.
"""
