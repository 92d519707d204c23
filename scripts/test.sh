#!/usr/bin/env bash
# Sets up what is missing, then checks the code and runs the tests: the fast ones, and with --all or in CI the
# slow ones, too. Other arguments go to pytest: scripts/test.sh tests/engine -k seed
# As many processes as there are cores share the tests, no more than 4, for each of them loads torch. The last
# word is yours: -n 0 is one process alone.
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
# Where processes share the cores, torch takes one of them for each.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
shared=(-n logical --maxprocesses 4 --max-worker-restart 0 --dist loadfile)
exec .venv/bin/python -m pytest "${shared[@]}" "${arguments[@]}"
