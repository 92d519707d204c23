#!/usr/bin/env bash
# Creates .venv with everything that the server needs. On Debian and Ubuntu it installs missing system packages with
# apt-get. A second run compares a stamp and returns at once. Arguments: requirements files in addition to
# requirements.txt.
# TORCH_INDEX: the package index of PyTorch's CPU builds (PyTorch's install page names it). On a machine without a GPU
# it reduces the download to a tenth.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly NAME=setup OLDEST=3.11
requirements=(requirements.txt "$@")

. scripts/apt.sh
fail() { say "$*"; exit 1; }

# --- the machine --------------------------------------------------------------------------------------

python_of_the_system() {
    local name
    for name in python3 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && "$name" -c "import sys; sys.exit(sys.version_info < (${OLDEST/./, }))"
        then
            command -v "$name"
            return
        fi
    done
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; }

report_gpu() {
    if has_gpu; then
        say "GPU: $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | paste -sd ';')"
    else
        say "no NVIDIA GPU with a driver: the model will run on the CPU"
    fi
}

# --- the environment ----------------------------------------------------------------------------------

# If the machine has torch and transformers (a GPU image, for example), .venv uses them: no large download.
has_torch() {
    "$1" - <<'PYTHON' 2>/dev/null
import sys, torch, transformers
version = lambda package: tuple(int(part) for part in package.__version__.split("+")[0].split(".")[:2])
sys.exit(version(torch) < (2, 6) or version(transformers) < (5, 0))
PYTHON
}

make_environment() {
    local python=$1 options=()
    has_torch "$python" && options=(--system-site-packages)
    if ! "$python" -m venv --clear "${options[@]}" .venv >/dev/null 2>&1; then
        apt_install python3-venv || fail "python3 -m venv does not work; install python3-venv, then run this again"
        "$python" -m venv --clear "${options[@]}" .venv
    fi
}

# --- the packages -------------------------------------------------------------------------------------

# On a terminal pip shows its progress; otherwise it is quiet.
pip_install() {
    local quiet=(--quiet)
    [ -t 1 ] && quiet=()
    .venv/bin/python -m pip install "${quiet[@]}" --disable-pip-version-check "$@"
}

pinned_torch() { sed -n 's/^\(torch==[^ ;]*\).*/\1/p' requirements.txt; }

is_installed() {
    .venv/bin/python -c "import importlib.metadata as m, sys; name, version = sys.argv[1].split('==')
sys.exit(m.version(name).split('+')[0] != version)" "$1" 2>/dev/null
}

install_torch() {
    local torch
    torch=$(pinned_torch)
    if is_installed "$torch"; then
        return
    elif has_gpu; then
        say "$torch: the CUDA build, for the GPU"
        pip_install "$torch"
    elif [ -n "${TORCH_INDEX:-}" ]; then
        say "$torch: the build at TORCH_INDEX; there is no GPU"
        pip_install --index-url "$TORCH_INDEX" "$torch"
    else
        say "$torch: the default build of pip's index; there is no GPU, and TORCH_INDEX is not set"
        pip_install "$torch"
    fi
    say "installed: torch $(.venv/bin/python -c 'import torch; print(torch.__version__)')"
}

install_packages() {
    local file arguments=()
    for file in "${requirements[@]}"; do arguments+=(-r "$file"); done
    if grep -q 'include-system-site-packages = true' .venv/pyvenv.cfg; then
        say "using the machine's torch and transformers: $(
            .venv/bin/python -c 'import torch, transformers; print(torch.__version__, transformers.__version__)')"
        install_missing_packages
        return
    fi
    install_torch
    pip_install "${arguments[@]}"
}

# Installs the packages that are missing. A package that the machine already has is used in any version.
install_missing_packages() {
    local line name
    while read -r line; do
        name=${line%%[=<>;[ ]*}
        .venv/bin/python -c "import importlib.metadata as m, sys; m.version(sys.argv[1])" "$name" 2>/dev/null \
            || pip_install "$line"
    done < <(cat "${requirements[@]}" | grep -v -E '^(#|-r|$)')
}

# --- the native library --------------------------------------------------------------------------------

# A model on the CPU is several times faster with the library. The server also works without it, so a failed build
# is not fatal.
build_library() {
    has_gpu || command -v gcc >/dev/null || command -v cc >/dev/null || apt_install gcc libc6-dev || true
    say "$(.venv/bin/python -m inference.native.build 2>&1 | tail -n 1)"
}

# --- the stamp ------------------------------------------------------------------------------------------

# One stamp for each requirements file: a set-up for the tests also covers the server.
stamp_of() { echo ".venv/installed-$(cat "$1" scripts/setup.sh | sha256sum | cut -c1-16)"; }

is_done() {
    local file
    [ -x .venv/bin/python ] || return 1
    for file in "${requirements[@]}"; do [ -e "$(stamp_of "$file")" ] || return 1; done
}

main() {
    if is_done; then return; fi

    local python file
    python=$(python_of_the_system)
    if [ -z "$python" ]; then
        apt_install python3 python3-venv || true
        python=$(python_of_the_system)
        [ -n "$python" ] || fail "needs Python $OLDEST or newer; install it, then run this again"
    fi
    say "Python: $("$python" --version 2>&1 | cut -d' ' -f2) at $python"
    report_gpu
    [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 || make_environment "$python"
    install_packages
    build_library
    for file in "${requirements[@]}"; do touch "$(stamp_of "$file")"; done
    say "done: .venv is ready"
}

main
