"""The verbs that people call on runs: trigger, enqueue, cancel, register.

Called by `api`, the tick and tests. It must never read a request or shape an answer."""
