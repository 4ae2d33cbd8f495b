"""Dead letters after their burial: retry, discard, redrive in bulk. (`state.attempts` buries them.)

Called by `api` and the tick. It must never send a message but through the outbox."""
