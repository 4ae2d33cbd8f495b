"""What users write with: the decorators, the context of a call, retries, signatures.

Imports `spec` and `schema`. It must never import the server's side."""
