"""The tick: finds what was lost and moves it on.

Called by beat, `POST /api/tick` and the command line. It must never be needed by a healthy deployment."""
