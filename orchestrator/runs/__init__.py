"""The verbs that create and end runs: trigger, enqueue, cancel, time out, admit, register a service.

Called by `api`, workers, the tick, `deadletters` and the command line. This room must never read an HTTP
request or build its answer."""
