"""History by the month: partitions, archives, dropping, and the expiry of single rows.

Called by beat, workers' retention thread and the command line. It must never touch a run that is open."""
