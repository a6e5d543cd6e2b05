"""The collectives of a group, as torch calls them, under the old and the new names."""

import torch

from r2ccl import buffers, dtypes, reduce_ops, sparse
from r2ccl.arguments import Arguments, back_to, counts, gathered, joined, one, separate
from r2ccl.recorder import Entry


class Collectives(Arguments):
    """Every collective takes lists of tensors, as torch.distributed passes them, and returns a Work.

    Raises ValueError, TypeError or RuntimeError for arguments that this rank alone can see to be
    wrong; nothing has started then. `wait` of the Work raises all other errors."""

    def _entry(self, name, inputs, outputs=None, op=None, root=None):
        return Entry(name, inputs, outputs, op, root)

    def _reduction(self, opts, dtype):
        """Returns the name of the reduction and r2ccl's number of it. The caller must end with
        _drop_factors()."""
        kind = reduce_ops.kind_of(opts)
        number = reduce_ops.number_of(kind, dtype)
        if number is None:
            number = reduce_ops.premul_sum(self.library, self._open_handle("PREMUL_SUM"),
                                           opts.reduceOp, dtype)
            self._factors.append(number)
        return reduce_ops.NAMES[kind], number

    # --- reductions ---

    def allreduce(self, tensors, opts=None):
        """Replaces the tensor by the reduction over all ranks, with the same bits on every rank."""
        tensor = one(tensors, "allreduce")
        if isinstance(tensor, torch.Tensor) and tensor.is_sparse:
            return sparse.all_reduce(self, tensor, opts)
        return self._all_reduce(tensor, opts)

    def _all_reduce(self, tensor, opts):
        memory = buffers.readable(tensor)
        code, factor = dtypes.reducible(tensor)
        pointer = memory.data_ptr()
        op, number = self._reduction(opts, tensor.dtype)
        try:
            return self._start(self._entry("all_reduce", [tensor], None, op), [tensor], memory,
                               None if memory is tensor else back_to(tensor, memory),
                               None if opts is None else opts.timeout,
                               self._starts.r2cclAllReduce, pointer, pointer,
                               memory.numel() * factor, code, number)
        finally:
            self._drop_factors()

    def allreduce_coalesced(self, tensors, opts=None):
        """As allreduce for each tensor; the operations start together."""
        return self._together(lambda tensor: self._all_reduce(tensor, opts), tensors)

    def reduce(self, tensors, opts):
        """Replaces the root's tensor by the reduction over all ranks."""
        tensor = one(tensors, "reduce")
        memory = buffers.readable(tensor)
        code, factor = dtypes.reducible(tensor)
        pointer, root = memory.data_ptr(), self._check_root(opts.rootRank, "reduce")
        is_root = root == self._rank
        op, number = self._reduction(opts, tensor.dtype)
        try:
            return self._start(self._entry("reduce", [tensor], None, op, root), [tensor], memory,
                               back_to(tensor, memory) if is_root else None, opts.timeout,
                               self._starts.r2cclReduce, pointer, pointer if is_root else None,
                               memory.numel() * factor, code, number, root)
        finally:
            self._drop_factors()

    def reduce_scatter(self, output_tensors, input_tensors, opts=None):
        """Sets the output to the reduction of the inputs with this rank's number. Inputs may differ
        in size, alike on all ranks."""
        output = one(output_tensors, "reduce_scatter")
        inputs = one(input_tensors, "reduce_scatter")
        self._check_list(inputs, output, "reduce_scatter", "input")
        self._check_own(inputs, output, "reduce_scatter")
        return self._reduce_scatter("reduce_scatter", output, joined(inputs),
                                    [tensor.numel() for tensor in inputs], opts)

    def reduce_scatter_single(self, output_tensor, input_tensor, opts=None):
        """As reduce_scatter, with the inputs in one tensor, of world size times the elements."""
        self._check_multiple(input_tensor, output_tensor, "reduce_scatter_tensor", "input")
        return self._reduce_scatter("_reduce_scatter_base", output_tensor,
                                    buffers.readable(input_tensor), [output_tensor.numel()], opts)

    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter(self, name, output, source, sizes, opts):
        memory = buffers.writable(output)
        code, factor = dtypes.reducible(output)
        function, count = self._starts.r2cclReduceScatter, output.numel() * factor
        if len(set(sizes)) > 1:
            function = self._starts.r2cclReduceScatterV
            count = counts([size * factor for size in sizes])
        op, number = self._reduction(opts, output.dtype)
        try:
            return self._start(self._entry(name, [source], [output], op), [output],
                               (memory, source), back_to(output, memory), opts and opts.timeout,
                               function, source.data_ptr(), memory.data_ptr(), count, code, number)
        finally:
            self._drop_factors()

    def reduce_scatter_single_coalesced(self, output_tensors, input_tensors, opts=None):
        """As reduce_scatter_single for each pair; the operations start together."""
        self._check_pairs(output_tensors, input_tensors, "reduce_scatter_tensor_coalesced")
        return self._together(
            lambda output, source: self.reduce_scatter_single(output, source, opts),
            output_tensors, input_tensors)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- copies ---

    def broadcast(self, tensors, opts):
        """Copies the root's tensor to all ranks."""
        tensor, root = one(tensors, "broadcast"), self._check_root(opts.rootRank, "broadcast")
        is_root = root == self._rank
        memory = buffers.readable(tensor) if is_root else buffers.writable(tensor)
        code, factor = dtypes.movable(tensor)
        pointer = memory.data_ptr()
        return self._start(self._entry("broadcast", [tensor], root=root), [tensor],
                           (tensor, memory),
                           None if is_root else back_to(tensor, memory), opts.timeout,
                           self._starts.r2cclBroadcast, pointer, pointer, memory.numel() * factor,
                           code, root)

    def allgather(self, output_tensors, input_tensors, opts=None):
        """Sets output r to the input of rank r. Outputs may differ in size, alike on all ranks."""
        outputs, source = one(output_tensors, "allgather"), one(input_tensors, "allgather")
        self._check_list(outputs, source, "allgather", "output")
        self._check_own(outputs, source, "allgather")
        send = buffers.readable(source)
        code, factor = dtypes.movable(source)
        receive, finish = gathered(outputs)
        sizes = [tensor.numel() * factor for tensor in outputs]
        function, shape = self._starts.r2cclAllGather, (sizes[0],)
        if len(set(sizes)) > 1:
            function, shape = self._starts.r2cclAllGatherV, (counts(sizes), None)
        return self._start(self._entry("all_gather", [source], outputs), outputs, (outputs, send, receive),
                           finish, opts and opts.timeout, function, send.data_ptr(),
                           receive.data_ptr(), *shape, code)

    def allgather_coalesced(self, output_tensor_lists, input_tensors, opts=None):
        """Sets output_tensor_lists[r][i] to input i of rank r."""
        if len(output_tensor_lists) != self._size:
            raise ValueError(f"allgather_coalesced: {len(output_tensor_lists)} lists of outputs: "
                             f"there must be one for each of the {self._size} ranks")
        for outputs in output_tensor_lists:
            self._check_pairs(outputs, input_tensors, "allgather_coalesced")
        return self._together(
            lambda outputs, source: self.allgather([list(outputs)], [source], opts),
            list(zip(*output_tensor_lists)), input_tensors)

    def all_gather_single(self, output_tensor, input_tensor, opts=None):
        """Sets block r of the output, which has world size times the elements, to the input of rank
        r."""
        self._check_multiple(output_tensor, input_tensor, "all_gather_into_tensor", "output")
        send, receive = buffers.readable(input_tensor), buffers.writable(output_tensor)
        code, factor = dtypes.movable(input_tensor)
        return self._start(self._entry("_all_gather_base", [input_tensor], [output_tensor]), [output_tensor],
                           (output_tensor, send, receive), back_to(output_tensor, receive),
                           opts and opts.timeout, self._starts.r2cclAllGather, send.data_ptr(),
                           receive.data_ptr(), send.numel() * factor, code)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, output_tensors, input_tensors, opts=None):
        """As all_gather_single for each pair; the operations start together."""
        self._check_pairs(output_tensors, input_tensors, "allgather_into_tensor_coalesced")
        return self._together(
            lambda output, source: self.all_gather_single(output, source, opts),
            output_tensors, input_tensors)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, output_tensors, input_tensors, opts):
        """Sets the root's output r to the input of rank r. All have the same size."""
        source, root = one(input_tensors, "gather"), self._check_root(opts.rootRank, "gather")
        send = buffers.readable(source)
        code, factor = dtypes.movable(source)
        outputs, receive, finish = [], None, None
        if root == self._rank:
            outputs = one(output_tensors, "gather")
            self._check_list(outputs, source, "gather", "output", alike=True)
            receive, finish = gathered(outputs)
        elif output_tensors and output_tensors[0]:
            raise ValueError("gather: requires empty output on a rank that is not the root")
        return self._start(self._entry("gather", [source], outputs, root=root), outputs,
                           (outputs, send, receive), finish, opts.timeout,
                           self._starts.r2cclGather, send.data_ptr(),
                           None if receive is None else receive.data_ptr(),
                           send.numel() * factor, code, root)

    def scatter(self, output_tensors, input_tensors, opts):
        """Sets the output of rank r to the root's input r. All have the same size."""
        output, root = one(output_tensors, "scatter"), self._check_root(opts.rootRank, "scatter")
        inputs, source = [], None
        if root == self._rank:
            inputs = one(input_tensors, "scatter")
            self._check_list(inputs, output, "scatter", "input", alike=True)
            source = joined(inputs)
        elif input_tensors and input_tensors[0]:
            raise ValueError("scatter: requires empty input on a rank that is not the root")
        memory = buffers.writable(output)
        code, factor = dtypes.movable(output)
        return self._start(self._entry("scatter", inputs, [output], root=root), [output],
                           (output, memory, source), back_to(output, memory), opts.timeout,
                           self._starts.r2cclScatter,
                           None if source is None else source.data_ptr(), memory.data_ptr(),
                           output.numel() * factor, code, root)

    def alltoall(self, output_tensors, input_tensors, opts=None):
        """Sets output r to input `rank` of rank r. Sizes may differ."""
        outputs, inputs = list(output_tensors), list(input_tensors)
        self._check_list(inputs, inputs[0] if inputs else None, "alltoall", "input")
        self._check_list(outputs, inputs[0], "alltoall", "output")
        send = joined(inputs)
        receive, finish = gathered(outputs)
        if receive.data_ptr() == send.data_ptr():
            send = send.clone()
        code, factor = dtypes.movable(inputs[0])
        return self._start(self._entry("all_to_all", inputs, outputs), outputs, (outputs, send, receive),
                           finish, opts and opts.timeout, self._starts.r2cclAllToAllV,
                           send.data_ptr(), counts([each.numel() * factor for each in inputs]),
                           None, receive.data_ptr(),
                           counts([each.numel() * factor for each in outputs]), None, code)

    def all_to_all_single(self, output_tensor, input_tensor, output_split_sizes=(),
                          input_split_sizes=(), opts=None):
        """Sends rows of the input, its first dimension cut by input_split_sizes, to each rank; the
        output has the rows of each rank, cut by output_split_sizes. Without sizes the cuts are
        equal."""
        buffers.require_contiguous(output_tensor)
        buffers.require_contiguous(input_tensor)
        if output_tensor.dtype != input_tensor.dtype:
            raise TypeError(f"all_to_all_single: the output is of {output_tensor.dtype}, the "
                            f"input of {input_tensor.dtype}: they must be the same")
        code, factor = dtypes.movable(input_tensor)
        send_counts = self._split(input_tensor, input_split_sizes, factor)
        receive_counts = self._split(output_tensor, output_split_sizes, factor)
        send, receive = buffers.readable(input_tensor), buffers.writable(output_tensor)
        return self._start(self._entry("all_to_all", [input_tensor], [output_tensor]), [output_tensor],
                           (output_tensor, send, receive), back_to(output_tensor, receive),
                           opts and opts.timeout, self._starts.r2cclAllToAllV, send.data_ptr(),
                           counts(send_counts), None, receive.data_ptr(), counts(receive_counts),
                           None, code)

    alltoall_base = all_to_all_single

    def barrier(self, opts=None):
        """Waits until every rank has called it."""
        return self._start(self._entry("barrier", []), [], None, None, opts and opts.timeout,
                           self._starts.r2cclBarrier)
