"""Keeps Works alive that torch's C++ code may hold after Python has dropped them.

Such a Work loses its Python methods: its wait then never ends. torch 2.7 and newer keep the Work of a
call from C++ code themselves; not one that Python hands to C++ code, as DDP does for the backward pass
of a join with uneven inputs. That one has a single element.
"""

import collections

import torch

TORCH_KEEPS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 7)
SMALL_ELEMENTS = 16


class KeptWorks:
    """The last works whole, and many more without their tensors, whose memory may be needed."""

    WHOLE, BARE = 64, 8192

    def __init__(self):
        self._whole = collections.deque()
        self._bare = collections.deque(maxlen=self.BARE)

    def add(self, work, outputs):
        if TORCH_KEEPS and not (len(outputs) == 1 and outputs[0].numel() <= SMALL_ELEMENTS):
            return
        self._whole.append(work)
        if len(self._whole) > self.WHOLE:
            old = self._whole.popleft()
            if not TORCH_KEEPS:
                old.forget_outputs()
                self._bare.append(old)


KEPT = KeptWorks()
