"""The kernel's view of running processes, by /proc."""
import os
import re
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


def _own_addresses(pid):
    """Returns the IPv4 addresses of the process's network beside the loopback's."""
    with open(f"/proc/{pid}/net/fib_trie", encoding="ascii") as table:
        local = re.findall(r"\|-- (\S+)\n\s*/32 host LOCAL", table.read())
    return sorted({address for address in local if not address.startswith("127.")})


def _ports_of_both_families(pid):
    """Returns the ports, and the inodes, of the sockets that listen on all addresses of a NIC."""
    with open(f"/proc/{pid}/net/tcp6", encoding="ascii") as table:
        rows = [line.split() for line in list(table)[1:]]
    return [(int(row[1].split(":")[1], 16), row[9]) for row in rows
            if row[3] == "0A" and set(row[1].split(":")[0]) == {"0"}]


def listening_ports(pid):
    """Returns [(address, port)] of the IPv4 sockets that this process listens on. A socket of a NIC
    stands here with the addresses of all NICs."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = [local for local, state, inode in _tcp_table(pid) if state == "0A" and inode in inodes]
    return ports + [(address, port) for port, inode in _ports_of_both_families(pid)
                    if inode in inodes for address in _own_addresses(pid)]


def sockets_in_time_wait(pid):
    return sum(state == "06" for _, state, _ in _tcp_table(pid))
