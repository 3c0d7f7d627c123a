"""Several hosts on one machine: network namespaces joined by a bridge, each with a name the others know. Needs the right to make them."""
import os
import subprocess
import tempfile

import pytest


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Addresses 10.77.0.1, 10.77.0.2 … on one bridge."""

    def __init__(self, count):
        self.prefix = f"hone{os.getpid() % 10000}"
        self.names = [f"{self.prefix}-{i}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]
        self.bridge = f"{self.prefix}b"
        ip("netns", "add", self.bridge)
        ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", self.bridge, "link", "set", "br0", "up")
        self.known = tempfile.NamedTemporaryFile("w")
        self.known.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in zip(self.names, self.addresses)))
        self.known.flush()
        for i, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{i}", "netns", self.bridge)
            ip("-n", self.bridge, "link", "set", f"port{i}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"{self.addresses[i]}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def on(self, host, line):
        """`line` as it runs on a host, where it goes by its name and knows the others'. (`ip netns exec` would hide cgroups, which slurmd wants to see.)"""
        settle = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
        return ["nsenter", f"--net=/run/netns/{self.names[host]}", "unshare", "-m", "-u", "sh", "-c", settle, self.known.name, self.names[host], *line]

    def cut(self, host):
        ip("-n", self.bridge, "link", "set", f"port{host}", "down")

    def close(self):
        for name in [*self.names, self.bridge]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        self.known.close()


@pytest.fixture
def hosts():
    """hosts(3) makes three; they are gone after the test."""
    made = []

    def make(count):
        try:
            made.append(Hosts(count))
        except (subprocess.CalledProcessError, OSError) as cause:
            pytest.skip(f"no network namespaces here: {getattr(cause, 'stderr', cause)}")
        return made[-1]

    yield make
    for network in made:
        network.close()
