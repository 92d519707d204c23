#!/usr/bin/env bash
# Runs setup.sh, then the server. Arguments go to main.py: scripts/serve.sh --port=9000
set -euo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$home/scripts/venv.sh"
"$home/scripts/setup.sh"
exec "$home/$VENV_PYTHON" "$home/main.py" "$@"
