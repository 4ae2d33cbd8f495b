"""JSON Schema for inputs: what is allowed in a schema, and whether a value fits.

Imports only the base modules. It must never load a remote reference."""
