"""Sandboxes the process: afterwards the kernel refuses all system calls except a few that grant no new rights.

The process may read and write its open descriptors, allocate memory (never executable), get the time and random
numbers, wait for its own locks, and end. Calls for files, sockets, processes, new descriptors and signals to other
processes fail with EPERM.
"""

import ctypes
import errno
import os
import struct

# Numbers of the system calls by machine: linux/audit.h and asm/unistd.h.
MACHINES = {
    "x86_64": (0xC000003E, {
        "read": 0, "write": 1, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13,
        "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25, "madvise": 28, "setitimer": 38,
        "exit": 60, "gettimeofday": 96, "sigaltstack": 131, "time": 201, "futex": 202, "restart_syscall": 219,
        "clock_gettime": 228, "exit_group": 231, "getrandom": 318}),
    "aarch64": (0xC00000B7, {
        "read": 63, "write": 64, "exit": 93, "exit_group": 94, "futex": 98, "setitimer": 103, "clock_gettime": 113,
        "sched_yield": 124, "restart_syscall": 128, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
        "rt_sigreturn": 139, "gettimeofday": 169, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222,
        "mprotect": 226, "madvise": 233, "getrandom": 278}),
}
TAKES_PROTECTION = ("mmap", "mprotect")  # protection is the third argument

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
PROT_EXEC = 4
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
LOAD, EQUAL, HAS_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # classic BPF: linux/filter.h
NUMBER_AT, ARCH_AT, ARG2_AT = 0, 4, 32  # in struct seccomp_data


class Unsupported(Exception):
    """The process cannot be sandboxed on this system; the message gives the reason."""


def instruction(code, if_true, if_false, value):
    return struct.pack("=HBBI", code, if_true, if_false, value)


def make_program(arch, numbers):
    with_protection = sorted(numbers[name] for name in TAKES_PROTECTION)
    others = sorted(number for name, number in numbers.items() if name not in TAKES_PROTECTION)
    program = [instruction(LOAD, 0, 0, ARCH_AT), instruction(EQUAL, 1, 0, arch), instruction(RETURN, 0, 0, KILL),
               instruction(LOAD, 0, 0, NUMBER_AT)]
    for number in others:
        program += [instruction(EQUAL, 0, 1, number), instruction(RETURN, 0, 0, ALLOW)]
    for number in with_protection:
        program += [instruction(EQUAL, 0, 4, number), instruction(LOAD, 0, 0, ARG2_AT),
                    instruction(HAS_BIT, 0, 1, PROT_EXEC), instruction(RETURN, 0, 0, REFUSE),
                    instruction(RETURN, 0, 0, ALLOW)]
    return program + [instruction(RETURN, 0, 0, REFUSE)]


def install():
    machine = os.uname().machine
    if machine not in MACHINES:
        raise Unsupported(f"machine {machine} (supported: {', '.join(MACHINES)})")
    program = make_program(*MACHINES[machine])
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0) != 0:
        raise Unsupported(f"the kernel refuses a seccomp filter: {errno.errorcode.get(ctypes.get_errno())}")
