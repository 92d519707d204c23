#!/usr/bin/env bash
# Runs setup.sh, the linters, mypy and the fast tests; with --all or in CI also the slow tests.
# Other arguments go to pytest: scripts/test.sh tests/engine -k seed
# The tests run in two processes more than there are cores, because many wait for a server; in at most 4, because each
# process loads torch. -n 0: a single process.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/venv.sh

arguments=()
for argument in "$@"; do
    if [ "$argument" = --all ]; then arguments+=(--slow); else arguments+=("$argument"); fi
done
[ "${CI:-}" = true ] && [[ " ${arguments[*]-} " != *" --slow "* ]] && arguments+=(--slow)

scripts/setup.sh requirements-dev.txt
# Meanwhile, because it waits for the network: what only slow tests need.
jobs=()
if [[ " ${arguments[*]-} " == *" --slow "* ]]; then
    scripts/install_test_tools.sh &
    tools=$!
    "$VENV_PYTHON" -m tests.clients.environments >/dev/null 2>&1 &
    jobs+=($!)
fi
"$VENV_PYTHON" -m ruff format --check .
"$VENV_PYTHON" -m ruff check .
# The tests start many processes; each would compile the project's modules again.
unset PYTHONDONTWRITEBYTECODE
# Compiled meanwhile: the C library (without a compiler, the tests that need it are skipped), and the tests, which
# each process of pytest would compile.
"$VENV_PYTHON" -m inference.native.build >/dev/null 2>&1 &
jobs+=($!)
"$VENV_PYTHON" -m pytest --collect-only ${arguments[@]+"${arguments[@]}"} >/dev/null 2>&1 &
jobs+=($!)
nice "$VENV_PYTHON" -m mypy &  # also while the tests wait
types=$!
[ -z "${tools-}" ] || wait "$tools"  # fails if it has failed
for job in "${jobs[@]}"; do wait "$job" || true; done
# Counted before OMP_NUM_THREADS is set, which nproc takes for the number of cores. macOS has no nproc.
cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
workers=$((cores < 2 ? cores + 2 : 4))
export PYTHONUTF8=1  # Windows would read and write the tests' files in its code page
# One torch thread per process, because the processes share the cores.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
code=0
"$VENV_PYTHON" -m pytest -n "$workers" --max-worker-restart 0 --dist loadfile --no-loadscope-reorder \
    ${arguments[@]+"${arguments[@]}"} || code=$?
wait "$types" || code=1
exit "$code"
