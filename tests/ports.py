"""Ports for the servers of a test, which are named to them before they listen."""

import os
import random
import socket

# Below those that the kernel gives to connections: what is free now is not taken by one of them in the meantime.
RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
FIRST, LAST = 10000, 32000

_given = set()
_chance = random.Random(os.getpid())


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _candidates():
    with open(RANGE, encoding="ascii") as file:
        lowest = int(file.read().split()[0])
    ports = [port for port in range(FIRST, min(LAST, lowest)) if port not in _given]
    return ports or [port for port in range(FIRST, LAST) if port not in _given]


def free_ports(count):
    """Ports that nobody listens on now, all different, and different from all those that this process got before."""
    chosen = []
    candidates = _candidates()
    _chance.shuffle(candidates)
    while len(chosen) < count:
        port = candidates.pop()
        if _is_free(port):
            chosen.append(port)
    _given.update(chosen)
    return chosen
