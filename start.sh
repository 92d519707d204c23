#!/usr/bin/env bash
# The command of Neodim's users: scripts/serve.sh by another name.
exec "$(dirname "${BASH_SOURCE[0]}")/scripts/serve.sh" "$@"
