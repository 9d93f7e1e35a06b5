"""Runs a program that finds a kernel without Landlock: without_landlock.py PROGRAM ARGUMENT…"""

import ctypes
import os
import struct
import sys

LANDLOCK = (444, 445, 446)  # its calls, on every processor
ENOSYS = 38
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of the filter's language
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def steps():
    yield struct.pack("HBBI", LOAD, 0, 0, 0)  # the number of the call
    for i, call in enumerate(LANDLOCK):
        yield struct.pack("HBBI", EQUAL, len(LANDLOCK) - i, 0, call)
    yield struct.pack("HBBI", RETURN, 0, 0, ALLOW)
    yield struct.pack("HBBI", RETURN, 0, 0, FAIL | ENOSYS)


def main():
    code = b"".join(steps())
    program = ctypes.create_string_buffer(code)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0):
        sys.exit(f"no filter can be set here: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[1], sys.argv[1:])


main()
