"""The last operations of this process's groups, for a dump after an error.

The fields of the dump are those of torch's flight recorder (version 2.10), as JSON.
"""

import collections
import itertools
import json
import os
import tempfile
import time

ENTRIES_VARIABLE = "R2CCL_TORCH_RECORD"
PREFIX_VARIABLE = "R2CCL_TORCH_DUMP_PREFIX"
ENTRIES = 200

STARTED, COMPLETED, FAILED = "started", "completed", "failed"


class Entry:
    """One operation. Times are in nanoseconds since 1970."""

    __slots__ = ("name", "number", "inputs", "outputs", "op", "peer", "tag", "timeout_ms",
                 "created_ns", "ended_ns", "state", "error")

    def __init__(self, name, inputs, outputs=None, op=None, peer=None, tag=None):
        self.name = name
        self.number = None  # of the group's collectives, or of its messages, once it has started
        self.inputs = [(tensor.shape, tensor.dtype) for tensor in inputs]
        self.outputs = outputs and [(tensor.shape, tensor.dtype) for tensor in outputs]
        # None for the outputs: as the inputs
        self.op = op  # the name of the reduction
        self.peer = peer  # the other rank of a message, or the root
        self.tag = tag  # of a message; None for a collective
        self.timeout_ms = None
        self.created_ns = time.time_ns()
        self.ended_ns = None
        self.state = STARTED
        self.error = None  # its text: the exception would keep the frames of its traceback

    def end(self, error):
        self.ended_ns = time.time_ns()
        self.state = COMPLETED if error is None else FAILED
        self.error = None if error is None else str(error)

    def as_fields(self, number, group, rank):
        """Returns the fields of the dump."""
        is_message = self.tag is not None
        outputs = self.inputs if self.outputs is None else self.outputs
        name = self.name
        if is_message:
            name += f" {rank}{'->' if name == 'send' else '<-'}{self.peer}"
        return {
            "record_id": number,
            "pg_id": group.number,
            "process_group": [group.name, group.description],
            "collective_seq_id": 0 if is_message else self.number,
            "p2p_seq_id": self.number if is_message else 0,
            "op_id": self.number,
            "profiling_name": f"r2ccl:{name}",
            "is_p2p": is_message,
            "reduction": self.op,
            "peer": self.peer,
            "tag": self.tag,
            "input_sizes": [list(shape) for shape, _ in self.inputs],
            "input_dtypes": [_name(dtype) for _, dtype in self.inputs],
            "output_sizes": [list(shape) for shape, _ in outputs],
            "output_dtypes": [_name(dtype) for _, dtype in outputs],
            "timeout_ms": self.timeout_ms,
            "time_created_ns": self.created_ns,
            "time_discovered_started_ns": self.created_ns,
            "time_discovered_completed_ns": self.ended_ns,
            "state": self.state,
            "error": self.error,
            "retired": self.ended_ns is not None,
            "frames": [],
        }


def _name(dtype):
    """Returns the name as torch's recorder has it, "Float" for torch.float32, or torch's own."""
    return {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
            "int32": "Int", "int64": "Long", "int8": "Char", "uint8": "Byte",
            "bool": "Bool"}.get(str(dtype).split(".")[1], str(dtype).split(".")[1])


class Recorder:
    """The last operations of one group."""

    def __init__(self, name, ranks, rank):
        self.name = name
        self.description = "undefined"
        self.ranks = ranks  # the group's ranks as numbers in the world
        self.rank = rank
        self.number = next(_numbers)
        self.started = 0  # number of collectives
        self._collectives = itertools.count(1)
        self._messages = itertools.count(1)
        self.entries = collections.deque(maxlen=entries_max())
        _recorders.append(self)

    def add(self, entry):
        """An operation has started, and gets its number. A call that was refused has none."""
        entry.number = next(self._collectives if entry.tag is None else self._messages)
        if entry.tag is None:
            self.started = entry.number
        self.entries.append(entry)

    def global_rank(self):
        """Returns this rank's number in the world."""
        return self.ranks[self.rank]

    def forget(self):
        """The group has ended: later dumps are without it."""
        if self in _recorders:
            _recorders.remove(self)

    def last(self, state):
        """Returns the number of the last collective in this state, or -1."""
        return max((entry.number for entry in list(self.entries)
                    if entry.tag is None and entry.state == state), default=-1)


_recorders = []
_numbers = itertools.count()


def entries_max():
    """Returns how many operations of each group are kept. Raises ValueError."""
    text = os.environ.get(ENTRIES_VARIABLE, "")
    if not text:
        return ENTRIES
    if not text.isdigit():
        raise ValueError(f"{ENTRIES_VARIABLE} is {text!r}: it must be a whole number, how many "
                         "operations of each group are kept; 0 keeps none")
    return int(text)


def fields():
    """Returns the record of all groups of this process."""
    entries = []
    for group in _recorders:
        for entry in list(group.entries):
            entries.append(entry.as_fields(len(entries), group, group.rank))
    return {
        "version": "2.10",
        "comm_lib_version": "r2ccl",
        "pg_config": {str(group.number): {"name": group.name, "desc": group.description,
                                          "ranks": str(group.ranks)} for group in _recorders},
        "pg_status": {str(group.number): {"last_enqueued_collective": max(
            group.last(STARTED), group.last(COMPLETED), group.last(FAILED)),
            "last_started_collective": group.last(STARTED),
            "last_completed_collective": group.last(COMPLETED)} for group in _recorders},
        "entries": entries,
    }


def dump(rank):
    """Writes the record into a file of this rank in the world. Returns its path; None when the
    record is off or cannot be written, because an error must not hide the one before it."""
    if entries_max() == 0:
        return None
    prefix = os.environ.get(PREFIX_VARIABLE) or os.path.join(tempfile.gettempdir(), "r2ccl_trace_")
    path = f"{prefix}rank{rank}_pid{os.getpid()}.json"
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(fields(), file, indent=1)
    except OSError:
        return None
    return path
