"""What may start now: limits, pauses, priorities, maintenance.

Called by the engine, by verbs and by the tick. It must never decide what a run does next."""
