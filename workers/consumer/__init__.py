"""Handles one message in a child process of a worker: claims task runs, calls their functions, stores a turn.

Called by Celery through `celery_tasks`, and by `process`, which makes the runner and reads the slots of
children. It must never contain SQL, never decide what follows a step (engine/turn.py does), and never
let an error of a task's function end its process.
"""
