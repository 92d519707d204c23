#!/usr/bin/env bash
# Creates .venv with everything that the server needs. On Debian and Ubuntu it installs missing system packages with
# apt-get. A second run compares a stamp and returns at once. Arguments: requirements files in addition to
# requirements.txt.
# TORCH_INDEX: a package index of PyTorch, whose address ends in the name of a build: cpu, cu126, cu130 (PyTorch's
# install page has them). On a GPU machine another build replaces the last part if the NVIDIA driver or the GPU needs
# it (checks/installation/torch_build.py). On a machine without a GPU the CPU build reduces the download to a tenth.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly NAME=setup OLDEST=3.11 UV=uv==0.13.9
requirements=(requirements.txt "$@")

. scripts/apt.sh
. scripts/venv.sh
fail() { say "$*"; exit 1; }

# --- the machine --------------------------------------------------------------------------------------

python_of_the_system() {
    local name
    for name in python3 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null && "$name" -c "import sys; sys.exit(sys.version_info < (${OLDEST/./, }))"
        then
            command -v "$name"
            return
        fi
    done
}

# The driver and its GPUs as text; fails without one. Reads what the kernel and nvidia-smi report.
find_gpu() { "$1" -m checks.installation.nvidia_driver; }

report_gpu() {
    local gpu
    if gpu=$(find_gpu "$1"); then
        say "GPU: $gpu"
    else
        say "no NVIDIA GPU with a driver: the model will run on the CPU"
    fi
}

# --- the environment ----------------------------------------------------------------------------------

# Whether torch can use the GPU, where there is one: by its build and the driver's version, then by asking torch, which
# also knows the libraries with which a container runs a newer CUDA on an older driver.
uses_gpu() {
    "$1" -m checks.installation.torch_build --usable 2>/dev/null \
        || "$1" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null
}

# If the machine has torch and transformers (a GPU image, for example), .venv uses them: no large download. The oldest
# releases that are accepted are those that the start accepts: checks/installation/versions.py.
has_torch() {
    "$1" -m checks.installation.versions 2>/dev/null && uses_gpu "$1" && "$1" - <<'PYTHON' 2>/dev/null
import torch, transformers
if torch.cuda.is_available():
    torch.ones(1, device="cuda").add(1).item()  # fails without kernels for the GPU
PYTHON
}

uses_packages_of_the_machine() { grep -q 'include-system-site-packages = true' .venv/pyvenv.cfg; }

has_environment() {
    [ -x "$VENV_PYTHON" ] && "$VENV_PYTHON" -m pip --version >/dev/null 2>&1 || return 1
    ! uses_packages_of_the_machine || has_torch "$VENV_PYTHON"
}

make_environment() {
    local python=$1 options=()
    has_torch "$python" && options=(--system-site-packages)
    if ! "$python" -m venv --clear ${options[@]+"${options[@]}"} .venv >/dev/null 2>&1; then
        apt_install python3-venv || fail "python3 -m venv does not work; install python3-venv, then run this again"
        "$python" -m venv --clear ${options[@]+"${options[@]}"} .venv
    fi
}

# --- the packages -------------------------------------------------------------------------------------

# On a terminal pip shows its progress; otherwise it is quiet. compile_imports compiles what a start needs.
pip_install() {
    local quiet=(--quiet)
    [ -t 1 ] && quiet=()
    "$VENV_PYTHON" -m pip install ${quiet[@]+"${quiet[@]}"} --no-compile --disable-pip-version-check "$@"
}

install_uv() { command -v uv >/dev/null || is_installed "$UV" || pip_install --retries 0 "$UV" || true; }

# uv takes a fraction of pip's time. It fails where pip's configuration has more than uv knows: then pip installs.
uv_install() {
    local quiet=(--quiet)
    [ -t 1 ] && quiet=()
    "$VENV_PYTHON" -m scripts.uv_install ${quiet[@]+"${quiet[@]}"} --no-compile "$@"
}

# Compiles the modules that a start imports, a seventh of those in .venv: it imports them once.
compile_imports() {
    "$VENV_PYTHON" -c 'from inference.process.imports.deferred_imports import defer_unused_imports
defer_unused_imports(is_sharded=False)
import startup.serve_one' 2>/dev/null || true
}

pinned_torch() { sed -n 's/^\(torch==[^ ;]*\).*/\1/p' requirements.txt; }

is_installed() {
    "$VENV_PYTHON" -c "import importlib.metadata as m, sys; name, version = sys.argv[1].split('==')
sys.exit(m.version(name).split('+')[0] != version)" "$1" 2>/dev/null
}

install_torch() {
    local torch choice build index options=() source="pip's own index"
    torch=$(pinned_torch)
    if is_installed "$torch"; then
        if uses_gpu "$VENV_PYTHON"; then return; fi
        say "the installed build of $torch cannot use the GPU"
    fi
    choice=$("$VENV_PYTHON" -m checks.installation.torch_build) || fail "$choice"
    if is_installed "$torch"; then "$VENV_PYTHON" -m pip uninstall --quiet --yes torch; fi
    read -r build index <<<"$choice"
    [ -n "$index" ] && options=(--index-url "$index") source=TORCH_INDEX
    [ "$source" = TORCH_INDEX ] && [ "$index" != "$TORCH_INDEX" ] && source="TORCH_INDEX, with $build as its last part"
    say "$torch from $source; this machine runs the $build build"
    uv_install ${options[@]+"${options[@]}"} "$torch" || pip_install ${options[@]+"${options[@]}"} "$torch" \
        || fail "pip cannot install $torch from $source: check the address and the network, then run this again"
    say "installed: torch $("$VENV_PYTHON" -c 'import importlib.metadata as m; print(m.version("torch"))')"
    uses_gpu "$VENV_PYTHON" || say "this torch cannot use the GPU: set TORCH_INDEX to PyTorch's package index of \
$build builds, or CUDA_VISIBLE_DEVICES to nothing for the CPU, then run this again"
}

install_packages() {
    local file arguments=()
    for file in "${requirements[@]}"; do arguments+=(-r "$file"); done
    if uses_packages_of_the_machine; then
        say "using the machine's packages: $(machine_pins | paste -sd ' ' -)"
        install_missing_packages
    else
        install_uv
        install_torch
        uv_install "${arguments[@]}" || pip_install "${arguments[@]}" \
            || fail "pip cannot install ${requirements[*]}: check the network, then run this again"
    fi
}

# The machine's torch and transformers as requirements: pip keeps them, and chooses only packages that fit them.
machine_pins() {
    "$VENV_PYTHON" -c 'import importlib.metadata as m
for name in ("torch", "transformers"): print(f"{name}=={m.version(name)}")'
}

# The requirements of standard input whose packages are missing.
select_missing() {
    "$VENV_PYTHON" -c 'import importlib.metadata as m, re, sys
for line in sys.stdin:
    try: m.version(re.split("[][=<>; ]", line)[0].strip())
    except m.PackageNotFoundError: print(line, end="")'
}

# Installs the packages that are missing. A package that the machine already has is used in any version.
install_missing_packages() {
    local missing=() pins=() requirement
    while IFS= read -r requirement; do missing+=("$requirement"); done \
        < <(cat "${requirements[@]}" | grep -v -E '^(#|-r|$)' | select_missing)
    [ ${#missing[@]} -gt 0 ] || return 0
    while IFS= read -r requirement; do pins+=("$requirement"); done < <(machine_pins)
    pip_install "${missing[@]}" "${pins[@]}" || fail "pip cannot install ${missing[*]} beside ${pins[*]}: check the \
network, then run this again"
}

# --- the compiler ---------------------------------------------------------------------------------------

# A model on the CPU is several times faster with the native library, a model on a GPU with Triton's kernels, which
# need a C compiler and Python's headers while the server runs. The server also works without, so failure is not fatal.
install_compiler() {
    local packages=()
    if find_gpu "$VENV_PYTHON" >/dev/null; then
        read -r -a packages < <("$VENV_PYTHON" -m checks.installation.triton_needs) || true
    elif ! command -v gcc >/dev/null && ! command -v cc >/dev/null; then
        packages=(gcc libc6-dev)
    fi
    [ ${#packages[@]} -gt 0 ] || return 0
    apt_install "${packages[@]}" || say "cannot install ${packages[*]}, without which the model is several times \
slower: install them, then start the server"
}

build_library() { say "$("$VENV_PYTHON" -m inference.native.build 2>&1 | tail -n 1)"; }

# --- the stamp ------------------------------------------------------------------------------------------

# One stamp for each requirements file: a set-up for the tests also covers the server.
stamp_of() { echo ".venv/installed-$(cat "$1" scripts/setup.sh | cksum | tr ' ' -)"; }

# The stamp alone is not enough: the start sends users here when the machine's packages or its driver have changed.
is_done() {
    local file
    [ -x "$VENV_PYTHON" ] || return 1
    for file in "${requirements[@]}"; do [ -e "$(stamp_of "$file")" ] || return 1; done
    "$VENV_PYTHON" -m checks.installation.versions && uses_gpu "$VENV_PYTHON"
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
    report_gpu "$python"
    has_environment || make_environment "$python"
    install_packages
    compile_imports
    install_compiler
    build_library
    for file in "${requirements[@]}"; do touch "$(stamp_of "$file")"; done
    say "done: .venv is ready"
}

main
