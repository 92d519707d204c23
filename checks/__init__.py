"""Preflight checks: whether this machine can run the model, before any weights are fetched.

preflight.py lists the checks. Each returns Findings: what the model needs, what the machine has, and the fix.
"""
