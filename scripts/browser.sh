#!/usr/bin/env bash
# Sees to it that there is a browser for the playground's tests: Chromium and its driver, by apt-get. Where there
# can be none it says so, and the tests that need one are skipped.
set -euo pipefail

say() { echo "browser: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

install() {
    command -v apt-get >/dev/null || return 1
    say "installing Chromium with apt-get"
    as_root apt-get update -q >&2 || say "apt-get update failed; trying with the lists there are"
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get install -y -q --no-install-recommends chromium chromium-driver >&2
}

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
    install || say "there is no Chromium here: the playground's tests will be skipped"
fi
