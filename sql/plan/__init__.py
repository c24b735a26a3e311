"""The plan of a query: typed expressions, relations, and the emitter of the engine's text."""
