"""Send and recv of a group."""

import ctypes

from r2ccl import buffers, dtypes, errors
from r2ccl.arguments import Arguments, back_to, one
from r2ccl.recorder import Entry

TAG_MAX = 2**31 - 1


class Messages(Arguments):
    """Messages between two ranks meet by tag, 0 or more. Each pair and tag has its own order."""

    def _message_entry(self, name, tensor, peer, tag):
        if not 0 <= peer < self._size:
            raise ValueError(f"{name}: invalid rank {peer} in a group of {self._size} ranks")
        if not 0 <= tag <= TAG_MAX:  # ctypes would cut a longer one off
            raise ValueError(f"{name}: invalid tag {tag}: it must be from 0 to {TAG_MAX}")
        return Entry(name, [tensor], peer=peer, tag=tag)

    def send(self, tensors, dst, tag=0):
        """Sends the tensor to rank `dst` of the group."""
        tensor = one(tensors, "send")
        buffers.require_contiguous(tensor)
        memory = buffers.readable(tensor)
        code, factor = dtypes.movable(tensor)
        return self._start(self._message_entry("send", tensor, dst, tag), [tensor],
                           (tensor, memory), None, None, self._starts.r2cclSendTagged,
                           memory.data_ptr(), memory.numel() * factor, code, dst, tag)

    def recv(self, tensors, src, tag=0):
        """Receives a message of the tensor's size from rank `src` of the group."""
        tensor = one(tensors, "recv")
        buffers.require_contiguous(tensor)
        memory = buffers.writable(tensor)
        code, factor = dtypes.movable(tensor)
        wanted, received = memory.numel() * factor, ctypes.c_size_t()
        copy = back_to(tensor, memory)

        def finish():
            if received.value != wanted:
                raise errors.R2cclError(
                    f"recv: the message of rank {src} with tag {tag} has "
                    f"{received.value // factor} elements, the tensor {wanted // factor}: they "
                    "must have the same number. The tensor's first elements are the message's")
            if copy is not None:
                copy()
        return self._start(self._message_entry("recv", tensor, src, tag), [tensor],
                           (tensor, memory, received), finish, None, self._starts.r2cclRecvTagged,
                           memory.data_ptr(), wanted, code, src, tag, ctypes.addressof(received))

    def recv_anysource(self, tensors, tag=0):
        raise NotImplementedError(
            "r2ccl has no recv from any rank: give recv the rank that sends (src=...)")
