"""Reads the headers of a model's weight files, from the disk or from the Hub."""
