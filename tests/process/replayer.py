#!/usr/bin/env python3
"""Records the bytes that this host sends on TCP connections that begin while it listens, and
replays them. On a line on its standard input it opens each of those connections anew and sends the
recorded bytes: unchanged, without the first byte, twice, and with one bit changed. Prints the
number of connections recorded and opened.

usage: replayer.py FIRST_BYTES_OF_EACH
"""
import select
import socket
import struct
import sys
import time

# Constants that the module lacks.
ETH_P_ALL, PACKET_OUTGOING, SO_RCVBUFFORCE = 3, 4, 33
SYN = 2


def parse(packet):
    """Returns (ends, sequence number, flags, payload) of an IPv4 TCP packet, or None."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
        return None
    header = (packet[0] & 15) * 4
    length = struct.unpack_from("!H", packet, 2)[0] or len(packet)
    source, target, sequence = struct.unpack_from("!HHI", packet, header)
    payload = header + (packet[header + 12] >> 4) * 4
    ends = (socket.inet_ntoa(packet[12:16]), source), (socket.inet_ntoa(packet[16:20]), target)
    return ends, sequence, packet[header + 13], packet[payload:max(length, payload)]


class Recorder:
    def __init__(self, most_bytes):
        self.most_bytes = most_bytes
        self.begun = {}  # by both ends: the first sequence number
        self.bytes = {}  # by both ends: the first bytes
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self.wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)

    def take_packet(self):
        packet, where = self.wire.recvfrom(1 << 17)
        parsed = parse(packet) if where[2] == PACKET_OUTGOING else None
        if not parsed:
            return
        ends, sequence, flags, payload = parsed
        if flags & SYN and not flags & 16:
            self.begun[ends], self.bytes[ends] = (sequence + 1) % 2**32, bytearray()
        elif ends in self.begun:
            said = self.bytes[ends]
            at = (sequence - self.begun[ends]) % 2**32
            # Skips lost and repeated segments; only the beginning matters.
            if at == len(said) < self.most_bytes:
                said += payload

    def until_a_line_comes(self):
        while True:
            ready, _, _ = select.select([self.wire, sys.stdin], [], [])
            if self.wire in ready:
                self.take_packet()
            if sys.stdin in ready:
                return sys.stdin.readline()


def changed(said):
    bytes_ = bytearray(said)
    bytes_[len(bytes_) // 2] ^= 1
    return bytes_


def play(target, said):
    """Returns True if the connection was made."""
    try:
        s = socket.create_connection(target, 1)
    except OSError:
        return False
    with s:
        try:
            # The peer must answer a greeting before the rest has a meaning; then all the rest
            # follows at once.
            s.sendall(said[:160])
            time.sleep(0.02)
            s.sendall(said[160:])
            time.sleep(0.02)
        except OSError:
            pass  # closed by the job, as it should be
    return True


def main():
    recorder = Recorder(int(sys.argv[1]))
    print("ready", flush=True)
    while recorder.until_a_line_comes():
        recorded = [(ends[1], bytes(said)) for ends, said in recorder.bytes.items() if said]
        made = 0
        for target, said in recorded:
            for variant in (said, said[1:], said + said, changed(said)):
                made += play(target, variant)
        print(len(recorded), made, flush=True)


if __name__ == "__main__":
    main()
