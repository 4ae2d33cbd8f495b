"""The tasks of the fault test, in the parts that workers load (catalogue.py)."""
