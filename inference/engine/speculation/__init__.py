"""Speculative decoding: who proposes draft tokens, and how many are worth computing."""
