"""What a plan takes of each device."""
