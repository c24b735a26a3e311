"""The plan of a query: typed expressions, and the emitter of the engine's text."""
