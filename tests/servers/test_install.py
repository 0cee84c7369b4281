"""The step that gets redis-server, chromium, nginx and promtool, on machines made of a few fake commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "install.sh"
PLAIN = ("sh", "rm", "printf", "chmod", "tee", "env", "cat")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell script")


class Machine:
    """A PATH with just these commands. Fake ones write what they were called with into ``calls``."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.calls = folder / "bin", folder / "calls"
        self.policy = folder / "policy-rc.d"
        self.bin.mkdir()
        for name in PLAIN:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        # The absolute paths of the script are moved into the test's folder.
        self.script = folder / "install.sh"
        self.script.write_text(SCRIPT.read_text().replace("/usr/sbin", str(folder)))

    def fake(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.calls}\n{body}\n')
        path.chmod(0o755)

    def run(self) -> str:
        done = subprocess.run(
            ["sh", str(self.script)],
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def called(self, name: str) -> list[str]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.fake("id", "echo 0")
    return machine


PROGRAMS = {"redis-server": "redis-server", "chromium": "chromium", "nginx": "nginx", "prometheus": "promtool"}


def appears(machine: Machine, *packages: str) -> str:
    """The shell commands by which a fake apt-get makes programs appear, if services are forbidden to start."""
    lines = [f"test -x {machine.policy} || exit 1", 'for last in "$@"; do :; done', 'case "$last" in']
    for package in packages or PROGRAMS:
        path = machine.bin / PROGRAMS[package]
        lines.append(f"{package}) printf '#!/bin/sh\\n' > {path}; chmod +x {path} ;;")
    return "\n".join([*lines, "*) exit 100 ;;", "esac"])


def test_what_is_there_is_left_alone(machine: Machine) -> None:
    for program in PROGRAMS.values():
        machine.fake(program, "")
    machine.fake("apt-get", "")
    assert machine.run() == ""
    assert not machine.calls.exists()


def test_root_installs_it_without_starting_a_service(machine: Machine) -> None:
    machine.fake("apt-get", appears(machine))
    machine.fake("systemctl", "")
    assert "Installed redis-server chromium nginx prometheus; no service was started" in machine.run()
    assert [call.split()[-1] for call in machine.called("apt-get")] == list(PROGRAMS)
    assert machine.called("systemctl") == ["disable redis-server", "disable nginx", "disable prometheus"]
    assert not machine.policy.exists(), "the prohibition is lifted again"


def test_a_policy_that_was_there_stays(machine: Machine) -> None:
    machine.policy.write_text("theirs")
    machine.policy.chmod(0o755)
    machine.fake("apt-get", appears(machine))
    machine.run()
    assert machine.policy.read_text() == "theirs"


def test_old_package_lists_are_renewed_once(machine: Machine) -> None:
    stale = f'if [ "$1" = update ]; then touch_; exit; fi; test -e {machine.bin}/fresh || exit 100'
    machine.fake("apt-get", f"{stale}\n{appears(machine)}")
    machine.fake("touch_", f"echo > {machine.bin}/fresh")
    assert "Installed" in machine.run()
    calls = [call.split()[0] for call in machine.called("apt-get")]
    assert calls == ["install", "update", "install", "install", "install", "install"]


def test_without_success_it_says_what_to_do_and_goes_on(machine: Machine) -> None:
    machine.fake("apt-get", "exit 100")
    said = machine.run()
    assert "redis-server is missing and was not installed: apt-get install failed" in said
    assert "are skipped; to have them: apt-get install prometheus" in said
    assert not machine.policy.exists()


def test_one_that_cannot_be_had_does_not_keep_the_others_away(machine: Machine) -> None:
    machine.fake("apt-get", appears(machine, "redis-server", "nginx", "prometheus"))
    said = machine.run()
    assert "chromium is missing" in said
    assert "promtool" not in said
    assert (machine.bin / "promtool").exists()


def test_without_root_it_asks_sudo_and_never_for_a_password(machine: Machine) -> None:
    machine.fake("id", "echo 1000")
    machine.fake("apt-get", appears(machine))
    assert "that takes root" in machine.run()
    machine.fake("sudo", 'test "$1" = -n || exit 1; shift; exec "$@"')
    machine.fake("true", "")
    assert "Installed redis-server" in machine.run()


def test_without_apt_it_says_so(machine: Machine) -> None:
    assert "there is no apt-get" in machine.run()
    assert os.access(SCRIPT, os.X_OK)
