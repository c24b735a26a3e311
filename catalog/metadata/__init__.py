"""Table and view metadata, format versions 1 to 3, as pure rules over decoded JSON."""
