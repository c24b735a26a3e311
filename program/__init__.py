"""The program as a value: all floors in one application, and its lifecycle."""
