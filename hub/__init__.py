"""Finds a model's files in a folder, in the download cache or on the Hub, and fetches them."""
