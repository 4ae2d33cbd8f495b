"""The inside of a box: a process that confines itself, then calls the function of a task, call after call.

`workers/boxes` starts it with `python -I -m pipeweave.box`. It imports the base modules and `authoring`. It
must never run code of users before `confine` has returned, nor believe that its parent believes it.
"""
