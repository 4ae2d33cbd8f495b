"""What a run does next when task runs became final.

Called by verbs, dead letters, the tick and workers. It must never speak to Redis: what it sends goes to the
transaction's outbox."""
