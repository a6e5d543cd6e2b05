#!/usr/bin/env python3
"""Streams bytes over TCP or MPTCP connections, as the peer of bench/alternatives.py.

  transfer.py send ADDRESS PORT FLOWS [--mptcp]
  transfer.py receive ADDRESS PORT FLOWS SECONDS [--mptcp]

The receiver prints one JSON line for each flow: [[monotonic second, bytes until then], ...], with a
point for each millisecond in which bytes arrived.
"""
import json
import selectors
import socket
import sys
import time

IPPROTO_MPTCP = 262
POINT_S = 0.001
BLOCK = 256 * 1024


def new_socket(mptcp):
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP if mptcp else 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def send(address, port, flows, mptcp):
    connections = []
    for _ in range(flows):
        connection = new_socket(mptcp)
        deadline = time.monotonic() + 5
        while connection.connect_ex((address, port)) != 0 and time.monotonic() < deadline:
            connection.close()
            time.sleep(0.05)
            connection = new_socket(mptcp)
        connections.append(connection)
    block = bytes(BLOCK)
    ready = selectors.DefaultSelector()
    for connection in connections:
        connection.setblocking(False)
        ready.register(connection, selectors.EVENT_WRITE)
    try:
        while True:
            for key, _ in ready.select():
                key.fileobj.send(block)
    except OSError:
        pass  # the receiver has ended


def receive(address, port, flows, seconds, mptcp):
    listener = new_socket(mptcp)
    # A subflow comes to an address of its own.
    listener.bind(("" if mptcp else address, port))
    listener.listen(flows)
    ready = selectors.DefaultSelector()
    points = {}
    for _ in range(flows):
        connection = listener.accept()[0]
        connection.setblocking(False)
        ready.register(connection, selectors.EVENT_READ)
        points[connection] = [[time.monotonic(), 0]]
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for key, _ in ready.select(left):
            try:
                count = len(key.fileobj.recv(BLOCK))
            except BlockingIOError:
                continue
            now, own = time.monotonic(), points[key.fileobj]
            if now - own[-1][0] > POINT_S:
                own.append([now, own[-1][1]])
            own[-1][1] += count
    for own in points.values():
        print(json.dumps(own))


def main():
    words = [word for word in sys.argv[1:] if word != "--mptcp"]
    mptcp = "--mptcp" in sys.argv
    if words[0] == "send":
        send(words[1], int(words[2]), int(words[3]), mptcp)
    else:
        receive(words[1], int(words[2]), int(words[3]), float(words[4]), mptcp)


if __name__ == "__main__":
    main()
