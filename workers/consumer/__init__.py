"""Works off one message in a child process of a worker: claim task runs, call their functions, store a turn.

Called by Celery through `celery_tasks`, and by `process`, which makes the runner and reads the slots of
children. It must never hold a statement, never decide what follows a step (engine/turn.py does), and never
let an error of a task's function end its process.
"""
