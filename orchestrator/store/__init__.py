"""The only way to PostgreSQL and to stored values: connections, transactions, statements, rows, paging.

Every later room may call it; `api` and `workers` use only what it hands on here. It must never know what a
run or a task run does next."""

from pipeweave.orchestrator.store.alarm import Alarm
from pipeweave.orchestrator.store.cache import Cache
from pipeweave.orchestrator.store.database import Database, Transaction, Verb
from pipeweave.orchestrator.store.keyset import DEFAULT_LIMIT, MAX_LIMIT, Document, PageRequest
from pipeweave.orchestrator.store.stored_json import read_back
from pipeweave.orchestrator.store.values import Values

__all__ = [
    "DEFAULT_LIMIT",
    "MAX_LIMIT",
    "Alarm",
    "Cache",
    "Database",
    "Document",
    "PageRequest",
    "Transaction",
    "Values",
    "Verb",
    "read_back",
]
