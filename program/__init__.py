"""The program as a value: the floors joined into one application, and its life."""
