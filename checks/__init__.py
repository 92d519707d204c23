"""Preflight checks: whether this machine can run the model, before any weights are fetched.

preflight.py lists the checks, which are in model/, execution/ and resources/. Each returns Findings: what the
model needs, what the machine has, and the fix. They compare what installation/, machine/, memory/ and speed/
measure and estimate.
"""
