"""Everything behind the API: backend.py defines the interface, types.py its requests and events."""
