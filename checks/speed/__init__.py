"""The speed that a model will have on this machine, estimated before its weights are fetched."""
