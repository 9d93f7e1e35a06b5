"""A client that reads as little at a time as it likes, and what it costs the service."""

import json
import os
import re
import select
import socket
import time

from studio.rig import PATIENCE, TOKEN

MIB = 1 << 20
CONTEXT = 300  # bytes of what came before in which a pattern may begin


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def connections(rig):
    """How many there are to its port."""
    local, established = f"0100007F:{rig.port:04X}", "01"
    with open("/proc/net/tcp") as file:
        return sum(line.split()[1::2][:2] == [local, established] for line in file)


class Client:
    def __init__(self, rig, method, path, body=None):
        data = json.dumps(body).encode() if body else b""
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", rig.port))
        head = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{rig.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n")
        self.socket.sendall(head.encode() + data)
        self.got = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def read(self, bytes_max):
        """How many there were; 0 at the end."""
        piece = self.socket.recv(bytes_max)
        self.got += piece
        return len(piece)

    def read_if_there(self, bytes_max):
        if select.select([self.socket], [], [], 0)[0]:
            self.read(bytes_max)

    def read_until(self, pattern):
        """All that has come up to there and was not told of before. Something may always come, as in a stream of
        events: how long it takes in all is limited."""
        at, end = 0, time.monotonic() + PATIENCE
        while not (found := re.compile(pattern).search(self.got, at)):
            at = max(0, len(self.got) - CONTEXT)
            if time.monotonic() > end or not self.read(MIB):
                raise AssertionError(f"{pattern} does not come: {self.got[-CONTEXT:]}")
        told = bytes(self.got[:found.end()])
        del self.got[:found.end()]
        return told

    def read_head(self):
        """How many bytes of a body follow; None: nobody has said."""
        head = self.read_until(rb"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(f"{head}")
        length = re.search(rb"Content-Length: (\d+)", head)
        return length and int(length[1])

    def read_body(self, length):
        """Fast."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        while len(self.got) < length:
            if not self.read(MIB):
                raise AssertionError(f"{len(self.got)} of {length} bytes have come")
        return self.got
