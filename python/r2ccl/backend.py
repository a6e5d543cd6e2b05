"""The class that torch's own groups call: dist.shrink_group makes a group of torch's class, which
hands every call on to a Backend. The work is done by the ProcessGroupR2ccl below it."""

import sys

import torch
import torch.distributed as dist


def has_trampoline(base):
    """Returns whether C++ calls the methods of a Python subclass of torch's Backend. Before torch
    2.14 it cannot even be made."""
    try:
        probe = type("Probe", (base,), {"supports_shrinking": property(lambda self: True)})(0, 1)
        return base.supports_shrinking.fget(probe)
    except (AttributeError, TypeError):
        return False


# torch 2.14 has no public name for it; a later one calls it torch.distributed.BackendBase.
BASE = getattr(dist, "BackendBase", None) or torch._C._distributed_c10d.Backend
IS_USABLE = has_trampoline(BASE)

# ProcessGroupR2ccl has these, with the same arguments.
CALLS = (
    "all_gather_single", "all_gather_single_coalesced", "all_to_all_single", "allgather",
    "allgather_coalesced", "allreduce", "allreduce_coalesced", "alltoall", "barrier", "broadcast",
    "gather", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "scatter",
    # their older names
    "_allgather_base", "_reduce_scatter_base", "allgather_into_tensor_coalesced", "alltoall_base",
    "reduce_scatter_tensor_coalesced",
    "recv", "recv_anysource", "send",
    "_end_coalescing", "_start_coalescing", "end_coalescing", "start_coalescing",
    "_get_backend_name", "getBackendName", "name", "rank", "size",
    "_get_sequence_number_for_group", "_set_default_timeout", "_set_sequence_number_for_group",
    "abort", "get_error", "get_reconfigure_handle", "reconfigure", "set_timeout", "shrink",
    "shutdown")
# torch's own properties call the subclass's for their default, and so would call themselves: every
# one that C++ reads must be here.
PROPERTIES = ("supports_coalescing", "supports_reconfigure", "supports_shrinking",
              "supports_splitting")


class BackendR2ccl(BASE if IS_USABLE else object):
    """Hands the calls of torch's group on to a ProcessGroupR2ccl, which it owns. Any thread may
    use it, as that one."""

    supports_time_estimate = property(lambda self: False)
    supports_window = property(lambda self: False)

    def __init__(self, group):
        super().__init__(group.rank(), group.size())
        self.group = group

    @property
    def options(self):
        """Returns the settings for a group that torch splits off."""
        return BASE.Options(self.group.name(), self.group.timeout())

    def allreduce_sparse(self, tensors, opts=None):
        return self.group.allreduce(tensors, opts)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """timeout: C++ passes its BarrierOptions."""
        return self.group.monitored_barrier(getattr(timeout, "timeout", timeout), wait_all_ranks)

    def _set_group_uid(self, name):
        """torch gives its group, and so its backends, a name when it has registered them."""
        self.group._set_group_name(name)
        made = made_by(sys._getframe(1), self)
        if made is not None:
            self._take_all_devices(made)

    def _take_all_devices(self, made):
        """torch's shrink_group registers any backend for the CPU alone, and as Gloo: DDP's C++ then
        takes it for a ProcessGroupGloo, and crashes. init_process_group does it like this."""
        for device in self.group._device_types:
            made._register_backend(device, dist.ProcessGroup.BackendType.CUSTOM, self)
        made._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)

    def split(self, store, ranks, opts):
        """As split_group; None on a rank that is not in `ranks`. The group needs no store of its
        own to meet."""
        made = self.group.split_group(ranks, opts._timeout, None, opts.group_name)
        return None if made is None else BackendR2ccl(made)


def _handed_on(name):
    def call(self, *args, **kwargs):
        return getattr(self.group, name)(*args, **kwargs)
    call.__name__ = name
    return call


for _name in CALLS:
    setattr(BackendR2ccl, _name, _handed_on(_name))
for _name in PROPERTIES:
    setattr(BackendR2ccl, _name, property(lambda self, name=_name: getattr(self.group, name)))


def made_by(frame, backend):
    """Returns the group that torch's shrink_group, one of the callers of this frame, makes of the
    backend. None elsewhere. torch hands it to no backend."""
    while frame is not None:
        made = frame.f_locals.get("new_pg")
        if isinstance(made, dist.ProcessGroup):
            return made if made._get_backend(made._device_types[0]) is backend else None
        frame = frame.f_back
    return None


def group_below(group):
    """Returns the ProcessGroupR2ccl of a caller's group: the group itself, or the one below its
    backend. None for a group without one."""
    if hasattr(group, "open_communicator"):
        return group
    for device in getattr(group, "_device_types", ()):
        backend = group._get_backend(device)
        if isinstance(backend, BackendR2ccl):
            return backend.group
    return None
