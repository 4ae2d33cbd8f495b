"""Says what is wrong in a deployment and why: doctor, verify, why, stalled work.

Called by `api` and the command line. It changes nothing, except that `repeated_ticks` runs ticks, and
`repairing` makes the rows of a run as its events say, on request."""
