#!/usr/bin/env python3
"""The proxy of a service mesh: it takes the TCP connections that netfilter redirects to it, connects
to the place that each was meant for, and passes the bytes on. So each connect() succeeds at once,
whether anyone listens at the other end or not. Its own packets have a mark, by which the rules spare
them. On SIGUSR1 it holds all other ends for unhealthy: it ends its connections, and each new one as
soon as it has taken it; on the next SIGUSR1 it serves again. On SIGTERM it prints how many
connections it has taken.

usage: redirecting_proxy.py PORT MARK
"""
import asyncio
import signal
import socket
import struct
import sys

SO_ORIGINAL_DST = 80
CONNECT_S = 10  # Envoy's default
PIECE_BYTES = 1 << 16


def meant_for(taken):
    """Returns the address that the caller of connect() gave."""
    port, address = struct.unpack("!2xH4s8x", taken.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16))
    return socket.inet_ntoa(address), port


async def connect(place, mark):
    out = socket.socket()
    out.setblocking(False)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(out, place), CONNECT_S)
        return await asyncio.open_connection(sock=out)
    except (OSError, asyncio.TimeoutError):
        out.close()
        return None


async def copy(reader, writer):
    try:
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


class Proxy:
    def __init__(self, mark):
        self.mark = mark
        self.taken = 0
        self.serves = True
        self.open = set()

    def toggle(self):
        self.serves = not self.serves
        for each in self.open:
            each.transport.abort()

    async def take(self, reader, writer):
        self.taken += 1
        if not self.serves:
            return writer.transport.abort()
        other = await connect(meant_for(writer.get_extra_info("socket")), self.mark)
        if other is None:
            return writer.transport.abort()
        ends = {writer, other[1]}
        self.open |= ends
        await asyncio.gather(copy(reader, other[1]), copy(other[0], writer))
        self.open -= ends
        for each in ends:
            each.close()


async def main(port, mark):
    proxy = Proxy(mark)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, proxy.toggle)
    await asyncio.start_server(proxy.take, "0.0.0.0", port, backlog=1024)
    print("ready", flush=True)
    await ended.wait()
    print(proxy.taken, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    asyncio.run(main(*map(int, sys.argv[1:])))
