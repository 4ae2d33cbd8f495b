"""Define the size limits that PipeWeave enforces before it stores anything.

They protect the database and the workers from one oversized spec or result. None of them is a setting.
"""

from __future__ import annotations

MAX_STEPS = 5_000
"""Steps of one pipeline."""

MAX_EDGES = 200_000
"""Edges (`needs` entries) of one pipeline. Two neighbouring `parallel` blocks of m and n steps make m * n
edges, so a small document can make very many.
"""

MAX_SPEC_BYTES = 2 * 1024 * 1024
"""One pipeline's stored spec, as canonical JSON (2 MiB)."""

MAX_DESCRIPTION = 10_000
"""Characters of a description."""

MAX_VALUE_DEPTH = 64
"""Nested lists and objects in a step's `params`."""

MAX_EDITED_PARAMS = 256 * 1024
"""Characters of JSON of the params that a rerun gives one step (256 KiB); they are stored in its row."""

MAX_JSON_DEPTH = 200
"""Nested lists and objects of one value that is stored (an input, an output, an item of a map), and of a
request body; pydantic's parser has the same limit. Answers and archives have values inside of documents, and
nothing writes more than 254 levels.
"""

MAX_REFERENCE_CHARS = 1_000
"""Characters of one `${…}`."""

MAX_TEXT_CHARS = 1_000_000
"""Characters of a text that references are put into."""

MAX_MAP_ITEMS = 100_000
"""Items of one map."""

MAX_CHILDREN = 100_000
"""Child runs of one map of pipelines or of steps."""

MAX_ITEM_BYTES = 32 * 1024
"""One item of a map, as JSON (32 KiB); it is stored in the row of its task run."""

MAX_TASK_RUNS_PER_RUN = 1_000_000
"""Task runs of one run, the items of all its maps included."""

INLINE_BYTES = 32 * 1024
"""A JSON value up to this size (32 KiB) is stored in its row, a larger value in the storage backend."""

INLINE_WHILE_AWAY_BYTES = 256 * 1024
"""An output up to this size (256 KiB) is stored in its row while the storage backend cannot be reached."""

MAX_OUTPUT_BYTES = 100_000_000
"""The output of one task run, as JSON (100 MB): worker, storage and readers hold it in memory."""

MAX_METADATA_BYTES = 32 * 1024
"""The `metadata` of one run or standalone task, as JSON (32 KiB); it is stored in the row."""

MAX_LOADED_BYTES = 120_000_000
"""The values, as JSON, that one request fetches with `load=true`, all of them together (120 MB): the largest
input and the largest output of a task run fit.
"""

MAX_KEY_CHARS = 500
"""Characters of an idempotency key."""

MAX_BODY_BYTES = 10_000_000
"""One request body (10 MB)."""

MAX_BATCH = 1_000
"""Tasks queued, or runs started, by one batch request."""

MIN_PRIORITY, MAX_PRIORITY = -1_000_000, 1_000_000
"""The range of a run's priority; a lower number runs first."""

MAX_RUN_TOKEN = 200
"""Characters of a run token."""

MAX_ENQUEUED = 10_000
"""Runs that one call of `enqueue_many` enqueues."""

MAX_ENQUEUED_BYTES = 50_000_000
"""The inputs of one call of `enqueue_many`, as JSON (50 MB)."""

MAX_BATCH_TASK_RUNS = 100_000
"""Task runs written by one batch request: its runs times the steps of their pipeline."""

MAX_ASSETS = 1_000
"""Assets of one attempt."""

MAX_ASSET_BYTES = 5_000_000_000
"""One asset (5 GB): what S3 and GCS take in one request."""

MAX_LOG_BYTES = 1_000_000
"""The stored log of one attempt (1 MB); what is logged after that is left out, and a last line says so."""

MAX_NAMED_BYTES = 10_000_000
"""One value that the adapter `storage` keeps under a name (10 MB of JSON)."""

MAX_ACTION_ANSWER_BYTES = 1_000_000
"""The answer to a request of the adapter `http` or `webhook` (1 MB)."""

MAX_UPLOAD_BYTES = 100 * 1024 * 1024
"""One temp upload (100 MiB)."""

MAX_UPLOADS_OF_RUN = 1_000
"""Uploads that one run's input may name."""

MAX_LOG_ANSWER_BYTES = 1_000_000
"""Stored log lines in one answer (1 MB)."""
