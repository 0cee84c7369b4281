#!/bin/sh
# Gets the servers that the tests start for themselves and that do not come as Python wheels: redis-server, from the
# packages of Debian and Ubuntu. Does nothing where it is there already. Where it cannot be had, says so and succeeds:
# the tests that need it then skip with the reason (and fail where CI is set).
set -u

say() { echo "==> $*"; }

cannot() {
  say "redis-server is missing and was not installed: $*."
  say "The tests that need it are skipped. To have them: apt-get install redis-server, or put it on the PATH."
  exit 0
}

if command -v redis-server >/dev/null 2>&1; then exit 0; fi
command -v apt-get >/dev/null 2>&1 || cannot "there is no apt-get"

if [ "$(id -u)" = 0 ]; then as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo -n"
else cannot "that takes root, or sudo without a password"; fi

# The tests start servers of their own. The package would also start one for the machine, on the usual port; policy-rc.d
# is Debian's way of saying no to that. One that is there already is left alone.
policy=/usr/sbin/policy-rc.d
forbade=""
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null && $as_root chmod 755 "$policy" && forbade=yes
fi
allow() { if [ -n "$forbade" ]; then $as_root rm -f "$policy"; forbade=""; fi; }
trap allow EXIT
trap 'exit 1' HUP INT TERM

options="-y -q --no-install-recommends -o Acquire::Retries=2 -o DPkg::Lock::Timeout=120"
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install $options redis-server >/dev/null 2>&1; }

say "Installing redis-server for the tests (apt-get install redis-server)"
install || { $as_root apt-get update -q >/dev/null 2>&1; install; } || cannot "apt-get install redis-server failed"
# Nor shall it start with the machine.
if command -v systemctl >/dev/null 2>&1; then $as_root systemctl disable redis-server >/dev/null 2>&1; fi
say "Installed $(redis-server --version 2>/dev/null || echo redis-server); no service was started"
