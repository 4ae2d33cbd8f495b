"""The only way to PostgreSQL and to stored values: connections, transactions, statements, rows, paging.

Every later room may call it; `api` and `workers` use only what it hands on here. It must never know what a
run or a task run does next."""
