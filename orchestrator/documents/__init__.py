"""Documents of the API, each declared once: its fields, what they mean, and how they come from a row.

Called by the rooms that read, which make documents of rows, and by `api`, whose description is built of them.
Both import the classes from the modules. This room must never read the database or know who asks."""
