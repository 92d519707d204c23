"""Models behind one door: open_backend."""
