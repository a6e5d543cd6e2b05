"""The kernel's view of running processes, by /proc."""
import os
import socket
import struct


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as numbers:
        return [int(number) for number in numbers.read().split()]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as line:
        fields = line.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_stopped(pid):
    """Returns whether SIGSTOP has taken effect on each of its threads."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as line:
            if line.read().rpartition(")")[2].split()[0] != "T":
                return False
    return True


def _tcp_table(pid):
    """Returns (local address and port, state, inode) of the IPv4 sockets in the process's
    network."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        for line in list(table)[1:]:
            words = line.split()
            address, port = words[1].split(":")
            local = socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)
            yield local, words[3], words[9]


def listening_ports(pid):
    """Returns [(address, port)] of the IPv4 sockets that this process listens on."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return [local for local, state, inode in _tcp_table(pid) if state == "0A" and inode in inodes]


def sockets_in_time_wait(pid):
    return sum(state == "06" for _, state, _ in _tcp_table(pid))
