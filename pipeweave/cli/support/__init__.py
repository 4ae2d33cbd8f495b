"""What the commands share: connections, options, rendering.

Called by the commands alone. It must never define a command."""
