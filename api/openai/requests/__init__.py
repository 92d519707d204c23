"""Converts the bodies of completions and chats to GenerationRequests, and refuses what is invalid."""
