"""Authentication: signature schemes as rules, and the engine that applies them."""
