"""The worker and beat processes: they take messages, call tasks' functions and drive the tick.

`consumer` handles messages in a child process; `process` starts and watches processes; `beat` runs the
tick. Called by the command line and by Celery; nothing else may import them. They must never hold SQL and
never decide what a run does next: they call the orchestrator's verbs.
"""
