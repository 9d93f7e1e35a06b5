"""Ports for the servers of a test, which are named to them before they listen."""

import os
import random
import socket

# Below those that the kernel gives to connections: what is free now is not taken by one of them in the meantime.
RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
FIRST, LAST = 10000, 32000

_claims = []
_chance = random.Random(os.getpid())


def _is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claim(port):
    """No other test gets it, here or in another process, while this one lives."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0kuno-test-port-{port}")
    except OSError:
        name.close()
        return False
    _claims.append(name)
    return True


def _candidates():
    with open(RANGE, encoding="ascii") as file:
        lowest = int(file.read().split()[0])
    return list(range(FIRST, min(LAST, lowest)) or range(FIRST, LAST))


def free_ports(count):
    """Ports that nobody listens on now, all different, and different from all those that this process got before or
    another one has."""
    chosen = []
    candidates = _candidates()
    _chance.shuffle(candidates)
    while len(chosen) < count:
        port = candidates.pop()
        if _claim(port) and _is_free(port):
            chosen.append(port)
    return chosen
