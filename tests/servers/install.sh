#!/bin/sh
# Gets the programs that the tests run and that do not come as Python wheels, from the packages of Debian and Ubuntu:
# redis-server, chromium (which drives the dashboard), nginx (which stands before it) and promtool (which judges the alert
# rules). Does nothing for one that is there already. Where one cannot be had, says so and succeeds: the tests that need
# it then skip with the reason (and fail where CI is set).
set -u

say() { echo "==> $*"; }

# program, its package, and a word on what it is for
wanted() {
  echo "redis-server redis-server the-Redis-store"
  echo "chromium chromium the-dashboard"
  echo "nginx nginx the-dashboard-behind-a-proxy"
  echo "promtool prometheus alert-rules"
}

has() {
  command -v "$1" >/dev/null 2>&1 && return
  case $1 in
    chromium) command -v chromium-browser >/dev/null 2>&1 ;;
    nginx) [ -x /usr/sbin/nginx ] ;; # not on everybody's path
    *) return 1 ;;
  esac
}
missing() { wanted | while read -r program package use; do has "$program" || printf '%s ' "$package"; done; }

cannot() {
  wanted | while read -r program package use; do
    has "$program" || say "$program is missing and was not installed: $*. Tests of $use are skipped; to have them: apt-get install $package."
  done
  exit 0
}

packages=$(missing)
if [ -z "$packages" ]; then exit 0; fi
command -v apt-get >/dev/null 2>&1 || cannot "there is no apt-get"

if [ "$(id -u)" = 0 ]; then as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo -n"
else cannot "that takes root, or sudo without a password"; fi

# The tests start servers of their own. The packages would also start some for the machine, on the usual ports;
# policy-rc.d is Debian's way of saying no to that. One that is there already is left alone.
policy=/usr/sbin/policy-rc.d
forbade=""
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null && $as_root chmod 755 "$policy" && forbade=yes
fi
allow() { if [ -n "$forbade" ]; then $as_root rm -f "$policy"; forbade=""; fi; }
trap allow EXIT
trap 'exit 1' HUP INT TERM

options="-y -q --no-install-recommends -o Acquire::Retries=2 -o DPkg::Lock::Timeout=120"
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install $options "$1" >/dev/null 2>&1; }

say "Installing for the tests: apt-get install ${packages% }"
updated=""
for package in $packages; do
  install "$package" && continue
  # Old package lists name versions that are gone; once is enough.
  if [ -z "$updated" ]; then updated=yes; $as_root apt-get update -q >/dev/null 2>&1; install "$package"; fi
done
# Nor shall services start with the machine.
for service in redis-server nginx prometheus; do
  case " $packages" in
    *" $service "*) if command -v systemctl >/dev/null 2>&1; then $as_root systemctl disable "$service" >/dev/null 2>&1; fi ;;
  esac
done
left=$(missing)
if [ -n "$left" ]; then cannot "apt-get install failed"; fi
say "Installed ${packages% }; no service was started"
