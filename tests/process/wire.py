"""The protocol of docs/wire.md from outside, so that a test can be a stranger with full knowledge
of it, a rank of another run, or a false rendezvous. Uses the engine's library for cryptography, and
Python's hash.
"""
import ctypes
import ctypes.util
import hashlib
import os
import socket
import struct

VERSION = 12
DATA, CONTROL, RENDEZVOUS, CALL, JOIN = 1, 2, 3, 4, 5
HELLO, REPLY, FINAL, REFUSE, CONFIRM = 1, 2, 3, 4, 5
NO_NIC = 0xffff
LOOPBACK_PATH = 0xfefe
RENDEZVOUS_RANK = 0xffffffff  # -1
ARRIVE, TABLE, REFUSED, RECEIVED, TOKEN = 1, 2, 3, 4, 5
FAILURE, ADDRESS = 1, 4  # kinds of notices

_sodium = None


def sodium():
    global _sodium
    if _sodium is None:
        _sodium = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
        assert _sodium.sodium_init() >= 0
    return _sodium


def keyed(key, label, *inputs):
    return hashlib.blake2b(label.encode() + b"".join(inputs), key=key, digest_size=32).digest()


def hashed(label, *inputs):
    return keyed(b"", label, *inputs)


class Refused(Exception):
    """The peer refused, with this text."""


class Connection:
    """Frames over one TCP connection; remembers the frames of both ends, and every received
    byte."""

    def __init__(self, connected, timeout=5):
        self.socket, self.transcript, self.received = connected, hashlib.blake2b(digest_size=32), b""
        connected.settimeout(timeout)

    @staticmethod
    def to(endpoint, timeout=5):
        return Connection(socket.create_connection(endpoint, timeout), timeout)

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def take(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("closed by the peer")
            data += part
        self.received += data
        return data

    def frame(self, wanted):
        """Returns a frame of the handshake; raises Refused."""
        prefix = self.take(8)
        assert prefix[:4] == b"R2CL", prefix
        if prefix[4] == REFUSE:
            raise Refused(self.take(struct.unpack_from("<H", prefix, 6)[0]).decode())
        assert prefix[4] == wanted, prefix
        if wanted in (FINAL, CONFIRM):
            return prefix + self.take(32)
        header = prefix + self.take({HELLO: 76, REPLY: 40}[wanted])
        size, = struct.unpack_from("<H", header, {HELLO: 48, REPLY: 12}[wanted])
        return header + self.take(size + 32)

    def add(self, *parts):
        for part in parts:
            self.transcript.update(part)

    def prove(self, before, label, key):
        self.add(before)
        proof = keyed(key, label, self.transcript.digest())
        self.add(proof)
        return proof

    def key(self, label, key):
        return keyed(key, label, self.transcript.digest())


def hello(job, from_rank, to_rank, path, kind, nics=(NO_NIC, NO_NIC), incarnation=0, payload=b"",
          epoch=0, secret=False):
    return (b"R2CL" + bytes([HELLO, VERSION, VERSION, secret]) + job
            + struct.pack("<IIIHBBHHIHH", epoch, from_rank, to_rank, path, kind, 0, *nics,
                          incarnation, len(payload), 0) + os.urandom(32) + payload)


class Run:
    """The state that a rank holds after the start: the public number of the run, and its key."""

    def __init__(self, number, key):
        self.number, self.key = number, key

    @staticmethod
    def of(job, token, table, secret=b"", epoch=0):
        epoch = struct.pack("<I", epoch)
        return Run(keyed(token, "r2ccl run 2: id", job)[:16],
                   keyed(token, "r2ccl run 2: key", job, epoch,
                         hashed("r2ccl table of ranks 2", table), secret))


def open_path_connection(endpoint, run, *where, **more):
    """Shakes hands as a rank of that run; returns (connection, key to send with, incarnation)."""
    connection = Connection.to(endpoint)
    try:
        greeting = hello(run.number, *where, **more)
        proof = connection.prove(greeting, "r2ccl path 2: HELLO", run.key)
        connection.send(greeting + proof)
        reply = connection.frame(REPLY)
        assert connection.prove(reply[:-32], "r2ccl path 2: REPLY", run.key) == reply[-32:]
        final = b"R2CL" + bytes([FINAL, VERSION, 0, 0])
        connection.send(final + connection.prove(final, "r2ccl path 2: FINAL", run.key))
    except BaseException:
        connection.close()
        raise
    return (connection, connection.key("r2ccl path 2: key, initiator to acceptor", run.key),
            struct.unpack_from("<I", reply, 8)[0])


def failure_frame(key, text):
    """Returns a control frame, the first of its connection, that ends the job with this text."""
    notice = bytes([FAILURE, 6, 0]) + text  # names no rank
    body = struct.pack("<BQQQQQQIIHHH", 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1)
    body += struct.pack("<QH", 1 << 32, len(notice)) + notice  # above all that were delivered
    header = b"R2CL" + bytes([VERSION, 0, 0, 0]) + struct.pack("<I", len(body))
    frame = header + control_tag(key, header, 0) + body
    return frame + hashlib.blake2b(frame, key=key, digest_size=16).digest()


def control_tag(key, header, sequence):
    """Returns the tag of a control frame's header: SipHash-2-4."""
    tag = ctypes.create_string_buffer(8)
    tagged = header + struct.pack("<Q", sequence)
    sodium().crypto_shorthash(tag, tagged, ctypes.c_ulonglong(len(tagged)),
                              keyed(key, "tag of control headers")[:16])
    return tag.raw


def address_notice(nic, address, port):
    return (bytes([ADDRESS]) + struct.pack("<HHB", nic, port, 1) + bytes([4, 8])
            + socket.inet_aton(address) + bytes(12))


# --- the rendezvous: CPace over ristretto255 ----------------------------------------------------

def lv_cat(*parts):
    out = b""
    for part in parts:
        size = len(part)
        while size >= 128:
            out += bytes([size & 127 | 128])
            size >>= 7
        out += bytes([size]) + part
    return out


def generator(secret, job, rank, nonce, epoch=0):
    channel = b"r2ccl rendezvous 2" + job + struct.pack("<II", epoch, rank)
    domain = b"CPaceRistretto255"
    padding = bytes(max(0, 127 - len(lv_cat(secret)) - len(lv_cat(domain))))
    text = lv_cat(domain, secret, padding, channel, nonce)
    out = ctypes.create_string_buffer(32)
    sodium().crypto_core_ristretto255_from_hash(out, hashlib.sha512(text).digest())
    return out.raw


def random_scalar():
    out = ctypes.create_string_buffer(32)
    sodium().crypto_core_ristretto255_scalar_random(out)
    return out.raw


def multiply(scalar, point):
    out = ctypes.create_string_buffer(32)
    if sodium().crypto_scalarmult_ristretto255(out, scalar, point) != 0:
        raise ValueError("the neutral element, or no point")
    return out.raw


def rendezvous_root(common, nonce, greeting, reply):
    isk = hashlib.sha512(lv_cat(b"CPaceRistretto255_ISK", nonce, common, greeting[-32:],
                                greeting[:-32], reply[-32:], reply[:-32])).digest()
    return keyed(isk[:32], "r2ccl rendezvous 2: root", isk[32:])


class Sealed:
    """Messages after the handshake with the rendezvous."""

    def __init__(self, connection, send_key, receive_key):
        self.connection = connection
        label = "r2ccl sealed stream 2"
        self.send_key, self.receive_key = keyed(send_key, label), keyed(receive_key, label)
        self.sent = self.got = 0

    def _nonce(self, number):
        return struct.pack("<Q", number) + bytes(4)

    def send(self, kind, body):
        for at in range(0, max(len(body), 1), 16384):
            part = body[at:at + 16384]
            last = at + 16384 >= len(body)
            header = struct.pack("<BBHIQ", kind, last, 0, len(part), self.sent)
            out = ctypes.create_string_buffer(len(part) + 16)
            sodium().crypto_aead_chacha20poly1305_ietf_encrypt(
                out, None, part, ctypes.c_ulonglong(len(part)), header,
                ctypes.c_ulonglong(len(header)), None, self._nonce(self.sent), self.send_key)
            self.connection.send(header + out.raw)
            self.sent += 1

    def receive(self):
        body, last = b"", False
        while not last:
            header = self.connection.take(16)
            kind, last, _, size, number = struct.unpack("<BBHIQ", header)
            sealed = self.connection.take(size + 16)
            out = ctypes.create_string_buffer(max(size, 1))
            assert number == self.got
            assert sodium().crypto_aead_chacha20poly1305_ietf_decrypt(
                out, None, None, sealed, ctypes.c_ulonglong(len(sealed)), header,
                ctypes.c_ulonglong(len(header)), self._nonce(number), self.receive_key) == 0
            body += out.raw[:size]
            self.got += 1
        return kind, body


def open_rendezvous(endpoint, job, rank, secret=b""):
    """Shakes hands with the rendezvous as that rank; `secret` is the job's key."""
    connection = Connection.to(endpoint)
    greeting = hello(job, rank, RENDEZVOUS_RANK, 0, RENDEZVOUS, secret=bool(secret))
    nonce, scalar = greeting[-32:], random_scalar()
    greeting += multiply(scalar, generator(secret, job, rank, nonce))
    connection.send(greeting)
    reply = connection.frame(REPLY)
    root = rendezvous_root(multiply(scalar, reply[-32:]), nonce, greeting, reply)
    connection.add(greeting, reply)
    final = b"R2CL" + bytes([FINAL, VERSION, 0, 0])
    connection.send(final + connection.prove(final, "r2ccl rendezvous 2: FINAL", root))
    confirm = connection.frame(CONFIRM)
    assert connection.prove(confirm[:-32], "r2ccl rendezvous 2: CONFIRM", root) == confirm[-32:]
    return Sealed(connection, connection.key("r2ccl rendezvous 2: key, initiator to acceptor", root),
                  connection.key("r2ccl rendezvous 2: key, acceptor to initiator", root))


def accept_rendezvous(connection, secret=b""):
    """Shakes hands as a rendezvous; returns (messages, rank). The FINAL is not checked."""
    greeting = connection.frame(HELLO)
    job, (rank,) = greeting[8:24], struct.unpack_from("<I", greeting, 28)
    nonce, scalar = greeting[52:84], random_scalar()
    reply = (b"R2CL" + bytes([REPLY, VERSION, 0, greeting[7]]) + struct.pack("<IHH", 0, 0, 0)
             + os.urandom(32))
    reply += multiply(scalar, generator(secret, job, rank, nonce))
    connection.send(reply)
    root = rendezvous_root(multiply(scalar, greeting[-32:]), nonce, greeting, reply)
    connection.add(greeting, reply)
    final = connection.frame(FINAL)
    connection.add(final)
    confirm = b"R2CL" + bytes([CONFIRM, VERSION, 0, 0])
    connection.send(confirm + connection.prove(confirm, "r2ccl rendezvous 2: CONFIRM", root))
    return Sealed(connection, connection.key("r2ccl rendezvous 2: key, acceptor to initiator", root),
                  connection.key("r2ccl rendezvous 2: key, initiator to acceptor", root)), rank


def text8(text):
    return bytes([len(text)]) + text


def arrival(rank, rank_count, info, left_ms=20_000):
    return (struct.pack("<I", rank_count) + os.urandom(16) + struct.pack("<II", left_ms, left_ms)
            + info)


def replace_in_info(info, **fields):
    """Returns a copy of that info, but of another rank or process."""
    out = bytearray(info)
    if "rank" in fields:
        struct.pack_into("<I", out, 1, fields["rank"])
    if "pid" in fields:
        struct.pack_into("<I", out, 6 + info[5] + 16, fields["pid"])
    return bytes(out)


def infos_of(table):
    count, = struct.unpack_from("<I", table)
    at, infos = 4, []
    for _ in range(count):
        size, = struct.unpack_from("<I", table, at)
        infos.append(table[at + 4:at + 4 + size])
        at += 4 + size
    return infos


def table_of(infos):
    return struct.pack("<I", len(infos)) + b"".join(
        struct.pack("<I", len(info)) + info for info in infos)


def job_number(name):
    return hashed("r2ccl job name", name.encode())[:16]


def forged_unique_id(endpoint, job):
    """Returns an id without a secret that leads to that endpoint."""
    address, port = endpoint
    text = struct.pack("<IBBBB", 0x44493252, 1, 0, 1, 0) + job + bytes(32)
    text += struct.pack("<BH", 4, port) + socket.inet_aton(address) + bytes(12)
    text = text.ljust(120, b"\0")
    return text + hashed("r2ccl unique id 1", text)[:8]
