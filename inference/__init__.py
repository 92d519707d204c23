"""Everything behind the API: backend.py has the interface, types.py its requests, events.py their answers."""
