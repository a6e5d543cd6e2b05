#!/usr/bin/env python3
"""Opens connections to every given port as a stranger. With CONNECTIONS it keeps this many open
that send too little: half of them nothing at all, the others the beginning of a greeting, one byte
a second. It replaces each connection that the job closes. It prints "full" once it has tried this
many, and "twice" when it has tried twice as many. With 0 it sends garbage: it opens one connection
after the other, writes garbage and closes, and prints "full" after 500. At the end, by SIGTERM, it
prints the number of its connections.

With --sources N it connects from N addresses of 127.0.0.0/8, one after the other.

usage: flooder.py [--sources N] CONNECTIONS TRIES_PER_SECOND HOST:PORT...
"""
import errno
import os
import resource
import select
import signal
import socket
import sys
import time

IP_BIND_ADDRESS_NO_PORT = 24
GREETING = b"R2CL\x01\x05\x04\x01" + bytes(range(16)) + bytes(60)


class Flood:
    def __init__(self, targets, connections, rate, sources):
        self.targets, self.connections, self.rate = targets, connections, rate
        self.sources = [f"127.0.{1 + i // 200}.{1 + i % 200}" for i in range(sources)]
        self.epoll = select.epoll()
        self.open = {}  # by descriptor: the socket
        self.said = {}  # by descriptor of each slow sender: how many bytes it has sent
        self.made = 0

    def knock(self):
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if self.sources:
            s.setsockopt(socket.SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            s.bind((self.sources[self.made % len(self.sources)], 0))
        error = s.connect_ex(self.targets[self.made % len(self.targets)])
        if error not in (0, errno.EINPROGRESS):
            s.close()
            return
        self.made += 1
        self.open[s.fileno()] = s
        if self.made % 2:
            self.said[s.fileno()] = 0
        self.epoll.register(s, select.EPOLLRDHUP)

    def forget_the_thrown_out(self, seconds):
        for fd, _ in self.epoll.poll(seconds, 1024):
            self.said.pop(fd, None)
            self.open.pop(fd).close()

    def drip(self):
        for fd, count in list(self.said.items()):
            try:
                self.open[fd].send(GREETING[count:count + 1])
                self.said[fd] = count + 1
            except OSError:
                pass  # not connected yet, or closed by the job already

    def run(self, until):
        started = time.monotonic()
        tried = 0
        drip_at = started + 1
        milestones = {self.connections: "full", 2 * self.connections: "twice"}
        while not until():
            allowed = min(int((time.monotonic() - started) * self.rate) - tried,
                          self.connections - len(self.open))
            for _ in range(max(allowed, 0)):
                self.knock()
            tried += max(allowed, 0)
            self.tell(milestones)
            if time.monotonic() > drip_at:
                drip_at += 1
                self.drip()
            self.forget_the_thrown_out(0.005)

    def tell(self, milestones):
        for count in [each for each in milestones if each <= self.made]:
            print(milestones.pop(count), flush=True)

    def shout(self, until):
        milestones = {500: "full"}
        while not until():
            self.tell(milestones)
            target = self.targets[self.made % len(self.targets)]
            try:
                with socket.create_connection(target, 5) as s:
                    s.sendall(b"\xff" * 64)
            except ConnectionRefusedError:  # a NIC's listener serves the addresses of that NIC
                self.targets.remove(target)
                continue
            self.made += 1
            time.sleep(1 / self.rate)


def main():
    words, sources = sys.argv[1:], 0
    if words[0] == "--sources":
        sources, words = int(words[1]), words[2:]
    connections, rate = int(words[0]), int(words[1])
    targets = [(host, int(port)) for host, _, port in
               (target.rpartition(":") for target in words[2:])]
    resource.setrlimit(resource.RLIMIT_NOFILE, (connections + 100, connections + 100))
    os.nice(5)  # the test measures the job's answer to it, not the competition for cores
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    flood = Flood(targets, connections, rate, sources)
    (flood.run if connections else flood.shout)(lambda: ended)
    print(flood.made, flush=True)


if __name__ == "__main__":
    main()
