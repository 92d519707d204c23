"""The model as it lies somewhere: on the Hub, in the download cache, in a folder."""
