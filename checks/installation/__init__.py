"""What is installed: Python's packages, the NVIDIA driver, what Triton needs.

Standard library only: scripts/setup.sh runs these files before torch is installed.
"""
