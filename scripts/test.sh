#!/usr/bin/env bash
# Sets up what is missing, then checks the code and runs the tests: the fast ones, and with --all or in CI the
# slow ones, too. Other arguments go to pytest: scripts/test.sh tests/engine -k seed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

arguments=()
for argument in "$@"; do
    if [ "$argument" = --all ]; then arguments+=(--slow); else arguments+=("$argument"); fi
done
[ "${CI:-}" = true ] && [[ " ${arguments[*]-} " != *" --slow "* ]] && arguments+=(--slow)

scripts/setup.sh requirements-dev.txt
[[ " ${arguments[*]-} " == *" --slow "* ]] && scripts/browser.sh
.venv/bin/python -m ruff format --check .
.venv/bin/python -m ruff check .
.venv/bin/python -m mypy
exec .venv/bin/python -m pytest "${arguments[@]}"
