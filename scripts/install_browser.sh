#!/usr/bin/env bash
# Installs Chromium and its driver with apt-get, for the playground's tests. If that fails, the tests that need a
# browser are skipped.
set -euo pipefail

readonly NAME=browser
. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
    apt_install chromium chromium-driver || say "Chromium is not available: the playground's tests will be skipped"
fi
