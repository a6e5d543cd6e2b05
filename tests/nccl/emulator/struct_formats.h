// The members of NCCL's structs that a kernel reads or writes, each by the name that NCCL gives it.
#pragma once

#include <string>

#include "layout.h"

namespace r2ccl::emulated {

// The parameters of a launch; the batches follow them.
struct ParametersFormat {
  explicit ParametersFormat(const Layout& layout)
      : comm(layout.field("ncclDevKernelArgs.comm")),
        channel_mask(layout.field("ncclDevKernelArgs.channelMask")),
        storage(layout.field("ncclDevKernelArgs.workStorageType")),
        works_mask(layout.field("ncclDevKernelArgs.workMask")),
        works(layout.field("ncclDevKernelArgs.workBuf")),
        bytes(layout.size("ncclDevKernelArgs")) {}

  Field comm, channel_mask, storage, works_mask, works;
  size_t bytes;
};

struct BatchFormat {
  explicit BatchFormat(const Layout& layout)
      : next(layout.field("ncclDevWorkBatch.nextJump")),
        is_extended(layout.field("ncclDevWorkBatch.nextExtends")),
        type(layout.field("ncclDevWorkBatch.workType")),
        function(layout.field("ncclDevWorkBatch.funcId")),
        first_offset(layout.field("ncclDevWorkBatch.offsetBase")),
        works(layout.field("ncclDevWorkBatch.offsetBitset")),
        bytes(layout.size("ncclDevWorkBatch")) {}

  Field next, is_extended, type, function, first_offset, works;
  size_t bytes;
};

// A communicator as kernels see it. Its struct has been renamed since ncclDevComm is public.
struct CommFormat {
  explicit CommFormat(const Layout& layout)
      : CommFormat(layout, layout.has_struct("ncclKernelCommAndChannels") ? "ncclKernelComm"
                                                                          : "ncclDevComm") {}

  Field rank, ranks, buffer_bytes, point_to_point_step_bytes, abort_flag, channels;

 private:
  CommFormat(const Layout& layout, const std::string& name)
      : rank(layout.field(name + ".rank")),
        ranks(layout.field(name + ".nRanks")),
        buffer_bytes(layout.field(name + ".buffSizes")),
        point_to_point_step_bytes(layout.field(name + ".p2pChunkSize")),
        abort_flag(layout.field(name + ".abortFlag")),
        channels(layout.field(name + "AndChannels.channels")) {}
};

struct ChannelFormat {
  explicit ChannelFormat(const Layout& layout)
      : peers(layout.field("ncclDevChannel.peers")),
        ring(layout.field("ncclDevChannel.ring")),
        tree(layout.field("ncclDevChannel.tree")),
        work_counter(layout.optional_field("ncclDevChannel.workCounter")),  // since 2.26
        bytes(layout.size("ncclDevChannel")),
        previous(layout.field("ncclRing.prev")),
        next(layout.field("ncclRing.next")),
        ranks(layout.field("ncclRing.userRanks")),
        index(layout.field("ncclRing.index")),
        up(layout.field("ncclTree.up")),
        down(layout.field("ncclTree.down")) {}

  Field peers, ring, tree, work_counter;
  size_t bytes;
  Field previous, next, ranks, index;  // in the ring
  Field up, down;                      // in the tree
};

struct CollectiveFormat {
  explicit CollectiveFormat(const Layout& layout)
      : first_channel(layout.field("ncclDevWorkColl.channelLo")),
        last_channel(layout.field("ncclDevWorkColl.channelHi")),
        counts{layout.field("ncclDevWorkColl.cbd.countLo"),
               layout.field("ncclDevWorkColl.cbd.countMid"),
               layout.field("ncclDevWorkColl.cbd.countHi")},
        chunk_grains{layout.field("ncclDevWorkColl.cbd.chunkGrainsLo"),
                     layout.field("ncclDevWorkColl.cbd.chunkGrainsMid"),
                     layout.field("ncclDevWorkColl.cbd.chunkGrainsHi")},
        root(layout.field("ncclDevWorkColl.root")),
        input(layout.field("ncclDevWorkColl.sendbuff")),
        output(layout.field("ncclDevWorkColl.recvbuff")),
        argument(layout.field("ncclDevWorkColl.redOpArg")),
        argument_is_pointer(layout.field("ncclDevWorkColl.redOpArgIsPtr")),
        has_registered_buffer(layout.field("ncclDevWorkColl.regUsed")),
        has_network_buffer(layout.optional_field("ncclDevWorkColl.netRegUsed")),  // since 2.24
        bytes(layout.size("ncclDevWorkColl")) {}

  Field first_channel, last_channel;
  Field counts[3], chunk_grains[3];
  Field root, input, output, argument, argument_is_pointer;
  Field has_registered_buffer, has_network_buffer;
  size_t bytes;
};

// One direction of a point-to-point work.
struct TransferFormat {
  // `direction` is "send" or "recv"; `parts` is the member that counts its channels.
  TransferFormat(const Layout& layout, const std::string& direction, const std::string& parts)
      : memory(layout.field("ncclDevWorkP2p." + direction + "Addr")),
        bytes(layout.field("ncclDevWorkP2p." + direction + "Bytes")),
        peer(layout.field("ncclDevWorkP2p." + direction + "Rank")),
        channels(layout.field("ncclDevWorkP2p." + parts)),
        chunk_bytes(layout.field("ncclDevWorkP2p." + direction + "ChunkSize_u32fp8")),
        is_ll(layout.field("ncclDevWorkP2p." + direction + "ProtoLL")) {}

  Field memory, bytes, peer, channels, chunk_bytes, is_ll;
};

struct PointToPointFormat {
  explicit PointToPointFormat(const Layout& layout)
      : send(layout, "send", "nSendChannels"),
        receive(layout, "recv", "nRecvChannels"),
        channel_base(layout.field("ncclDevWorkP2p.channelBase")),
        channels(layout.field("ncclDevWorkP2p.nP2pChannels")),
        bytes(layout.size("ncclDevWorkP2p")) {}

  TransferFormat send, receive;
  Field channel_base, channels;
  size_t bytes;
};

struct ConnectionFormat {
  explicit ConnectionFormat(const Layout& layout)
      : senders(layout.field("ncclDevChannelPeer.send")),
        receivers(layout.field("ncclDevChannelPeer.recv")),
        buffers(layout.field("ncclConnInfo.buffs")),
        tail(layout.field("ncclConnInfo.tail")),
        head(layout.field("ncclConnInfo.head")),
        step(layout.field("ncclConnInfo.step")),
        step_bytes(layout.field("ncclConnInfo.stepSize")),
        fifo(layout.field("ncclConnInfo.connFifo")),
        bytes(layout.size("ncclConnInfo")),
        fifo_mode(layout.field("ncclConnFifo.mode")),
        fifo_offset(layout.field("ncclConnFifo.offset")),
        fifo_bytes(layout.field("ncclConnFifo.size")),
        fifo_entry_bytes(layout.size("ncclConnFifo")) {}

  Field senders, receivers;  // a peer's connections
  Field buffers, tail, head, step, step_bytes, fifo;
  size_t bytes;
  Field fifo_mode, fifo_offset, fifo_bytes;
  size_t fifo_entry_bytes;
};

}  // namespace r2ccl::emulated
