"""The model that is trained: its base, and an adapter over it or all its weights."""
