"""Whether there is enough of what a server takes: memory, disk, ports, nodes."""
