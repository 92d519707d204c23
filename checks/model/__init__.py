"""Whether the files of the model, and those of its adapters, can be served."""
