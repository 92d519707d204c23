"""Models behind one interface: backend.py says what they are asked, types.py in which words."""
