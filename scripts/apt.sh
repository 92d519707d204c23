# Sourced by setup.sh and install_test_tools.sh, which set NAME: messages, and system packages of Debian and Ubuntu.

say() { echo "$NAME: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

# Installs what is missing, without upgrades of installed packages.
apt_install() {
    command -v apt-get >/dev/null || return 1
    say "installing $* with apt-get"
    as_root apt-get update -q >&2 || say "apt-get update failed; using the existing package lists"
    DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -q --no-install-recommends "$@" >&2
}
