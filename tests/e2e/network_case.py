"""Networks between the processes of a run: a relay that delays, stalls and cuts connections, and network namespaces."""

import contextlib
import shutil
import socket
import subprocess
import threading
import time
import unittest

import harness


class Relay:
    """Forwards TCP connections to a host and port. delay_s: of each piece of data. With `stalls` nothing is forwarded,
    and connections stay open."""

    def __init__(self, host, port):
        self.target = (host, port)
        self.delay_s, self.stalls, self.is_cut = 0.0, False, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        self.run(self.accept)

    @staticmethod
    def run(function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                self.sockets.append(one)
                self.run(self.connect, one)

    def connect(self, one):
        """The target may not listen yet."""
        while not self.is_cut:
            with contextlib.suppress(OSError):
                other = socket.create_connection(self.target)
                self.sockets.append(other)
                self.run(self.forward, one, other)
                self.run(self.forward, other, one)
                return
            time.sleep(0.02)

    def forward(self, source, target):
        with contextlib.suppress(OSError):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = True
            while data:
                data = source.recv(1 << 16)
                time.sleep(self.delay_s)
                while self.stalls:
                    time.sleep(0.01)
                if data:
                    target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def cut(self):
        """End every connection, and take no new one."""
        self.stalls, self.is_cut = False, True
        for end in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Namespaces:
    """Network namespaces 0 to n - 1 of an unprivileged user, each with its loopback interface up."""

    def __init__(self, n, case):
        if not shutil.which("unshare") or not shutil.which("nsenter") or not shutil.which("ip"):
            case.skipTest("no unshare, nsenter or ip here")
        self.holders = []
        for _ in range(n):
            enter = self.enter(0) if self.holders else []
            new = ["unshare", "-n"] if self.holders else ["unshare", "-rn"]
            holder = subprocess.Popen([*enter, *new, "sh", "-c", "echo ready; exec sleep 300"], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            case.addCleanup(self.end, holder)
            self.holders.append(holder)
            line = holder.stdout.readline()
            if line != "ready\n":
                raise unittest.SkipTest(f"network namespaces are not allowed here: {line.strip()}")
            self.ip(len(self.holders) - 1, "link set lo up")

    @staticmethod
    def end(holder):
        holder.kill()
        holder.wait()
        holder.stdout.close()

    def enter(self, i):
        """The beginning of a command that runs in a namespace."""
        return ["nsenter", "-t", str(self.holders[i].pid), "-U", "--preserve-credentials", "-n"]

    def ip(self, i, command):
        subprocess.run([*self.enter(i), "ip", *command.split()], check=True, timeout=harness.TIMEOUT_S)

    def connect(self, a, b, name, network):
        """A pair of interfaces: NAMEa with the address NETWORK.1, NAMEb with NETWORK.2."""
        ends = ((a, f"{name}a", 1), (b, f"{name}b", 2))
        pid = self.holders[b].pid
        self.ip(a, f"link add {name}a type veth peer name {name}b netns {pid}")
        for i, interface, last in ends:
            self.ip(i, f"addr add {network}.{last}/24 dev {interface}")
            self.ip(i, f"link set {interface} up")

    def forward(self, i):
        """Namespace i passes on packets between its interfaces."""
        subprocess.run([*self.enter(i), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True,
                       timeout=harness.TIMEOUT_S)
