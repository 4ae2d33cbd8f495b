"""What is wrong and why: doctor, verify, why, stalled work.

Called by `api` and the command line. It changes nothing, but for what `resending` is asked to send again."""
