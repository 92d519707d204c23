# Sourced by the scripts that use .venv: VENV_PYTHON, its Python on each system.
# They run with the tools of macOS, too: without those that only GNU has, and in bash 3.2, where an empty array is an
# unset variable under `set -u`, hence ${name[@]+"${name[@]}"}.

# On Windows python -m venv makes Scripts in place of bin. Git Bash finds python.exe as python.
# shellcheck disable=SC2034
case ${OSTYPE:-} in
    msys* | cygwin*) VENV_PYTHON=.venv/Scripts/python ;;
    *) VENV_PYTHON=.venv/bin/python ;;
esac
