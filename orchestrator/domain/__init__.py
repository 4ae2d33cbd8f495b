"""Values and rules of the engine, without input or output: statuses, plans, task runs, failures, events.

Every room may import it. It must never import another room, a driver or Celery.
"""
