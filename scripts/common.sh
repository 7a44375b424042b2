# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What every script here shares: where the repository is, how progress is told, how packages come.
# Sourced, never run. Nothing in it touches the system until it has said what it will do.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit

say() { printf '==> %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# Runs a command as root: as it is for root, through sudo for anybody else.
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "root is needed, and there is no sudo; as root, run: $*"
  fi
}

# configure PRESET OPTION...: a build folder that is there keeps what it was told. The HIP backend is
# built for the GPUs of this machine: kernels for others take minutes and could not run here.
configure() {
  local preset=$1 first=()
  shift
  [[ -e build/$preset/CMakeCache.txt ]] || first=(-DCROSSFLASH_HIP_ARCHITECTURES=native)
  cmake --preset "$preset" "${first[@]}" "$@"
}

# A new machine often updates itself in the background: wait for apt's lock rather than fail on it.
apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
    -o DPkg::Lock::Timeout=600 -o DPkg::Use-Pty=0 -o Acquire::Retries=3 "$@"
}

# Prints those of the given packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    # shellcheck disable=SC2016  # the format is dpkg's, not the shell's
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      printf '%s\n' "$package"
  done
}

# Installs the given packages; where all of them are there, apt is not even called.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is neither Debian nor Ubuntu: install the equivalents of $* yourself"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    say "packages: all $# are installed"
    return
  fi
  say "packages: installing ${missing[*]}"
  apt_get update
  apt_get install --no-install-recommends "${missing[@]}"
}
