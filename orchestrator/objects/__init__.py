"""Objects in storage as the rows know them: temp uploads, what refers to an object, the sweep of the others.

Called by `runs`, which claims uploads for new runs, by `reading`, `api`, the commands and the tick. It must
never change a run or a task run, nor delete an object that a row refers to."""
