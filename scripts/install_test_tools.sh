#!/usr/bin/env bash
# Installs with apt-get what slow tests need: Chromium and its driver for the pages; a compiler for ARM and an emulator
# for the native code of its processors. Where that fails, these tests are skipped.
set -euo pipefail

readonly NAME=test_tools
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
    apt_install chromium chromium-driver || say "Chromium is not available: the tests of the pages will be skipped"
fi
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
        || say "ARM cannot be emulated: the tests of its native code will be skipped"
fi
