"""Builds the pages of docs/ as a site that the API serves at /help: `make docs`.

mkdocs.yml has the pages and their order. `hooks` changes what the builder reads and writes, `own_files` moves
scripts and styles out of the pages, and `diagrams` makes tables of drawings. No room of PipeWeave
imports it, and no installation has it.
"""
