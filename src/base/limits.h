// Every bound of the library in one place, with the reason for its size. The memory of one
// communicator of p ranks is at most
//   staging + (p - 1) * (2 * eager + paths * (window buffers in the kernel + scratch)),
// and for each peer that it exchanges tagged messages with
//   2 * eager + kTaggedWholeBytes + kTaggedAnnouncedMax * kTaggedMessageOverhead + rooms for
//   frames.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace r2ccl::limits {

// --- chunks: the unit of dispatch, acknowledgement and retransmission -------------------------
inline constexpr uint32_t kChunkBytesMin = 4 * 1024;
inline constexpr uint32_t kChunkBytesMax = 1024 * 1024;
inline constexpr uint32_t kChunkAlignment = 64;
// Likewise for a message that the receiver may look at while it arrives. A line of NCCL's protocol
// LL128 has its flag at its end, so no chunk may begin inside a line.
inline constexpr uint32_t kPolledChunkAlignment = 128;
// Time for which one chunk keeps the fastest path busy. It is short, so the loss of a chunk costs
// little, and long enough that its header and its acknowledgement cost little too.
inline constexpr TimeNs kChunkDuration = 1'500 * kMicrosecond;
// Chunks of one message that may lie beyond its first unacknowledged chunk. The bitmap of one
// acknowledgement describes this many.
inline constexpr uint32_t kAckBitmapChunks = 1024;

// --- messages ---------------------------------------------------------------------------------
// The library splits point-to-point transfers into messages of at most this size.
inline constexpr uint64_t kMessageBytesMax = 16 * 1024 * 1024;
// The send ledger copies messages up to this size at the send, within the bound per channel, so a
// small operation need not wait for its last acknowledgements. The copy takes microseconds; the
// round trip takes a good part of a millisecond.
inline constexpr uint64_t kBufferedSendBytesMax = 32 * 1024;
inline constexpr uint64_t kBufferedBytesPerChannel = 1024 * 1024;
// Memory of such copies that a channel keeps for the next ones. Small operations that follow each
// other at once have about this much unacknowledged.
inline constexpr uint64_t kBufferedSpareBytes = 128 * 1024;
// Unexpected tagged messages that travel inside their frames, per peer: their bytes, and for each
// the memory that keeps it.
inline constexpr uint64_t kTaggedWholeBytes = 256 * 1024;
inline constexpr uint64_t kTaggedMessageOverhead = 128;
// Unexpected tagged messages that are announced, per peer. Each takes the memory above. Beyond this
// a late Recv of one tag holds up the other tags.
inline constexpr size_t kTaggedAnnouncedMax = 64 * 1024;
// Standing receives for the frames of tagged messages, per peer that has exchanged some.
inline constexpr size_t kTaggedRooms = 4;
// Messages per channel that a sender may have open beyond the receiver's low-water mark.
inline constexpr uint64_t kMessagesAheadMax = 4096;
// Messages posted on a channel, per peer and direction, counted from the oldest unfinished one.
// This is deep enough for any pipeline and well inside the bound above. It keeps memory independent
// of the size of an operation.
inline constexpr uint64_t kMessagesPostedMax = 1024;

// --- jobs -------------------------------------------------------------------------------------
// Ranks of one job. It bounds the memory that one unauthenticated connection can make a rendezvous
// server keep.
inline constexpr int32_t kRanksMax = 1 << 16;

// --- communicators ------------------------------------------------------------------------------
// Bytes of the name by which the members of a group find each other's messages.
inline constexpr size_t kGroupNameBytesMax = 255;

// --- channels -----------------------------------------------------------------------------------
// Channels of one link: four for each communicator. Their marks must fit into one control frame.
inline constexpr size_t kChannelsMax = 512;
// Communicators of one link that the peer has used before this rank has made them. The peer may be
// ahead by the creation of some communicators, and each channel may hold an eager pool's bytes
// until it is opened.
inline constexpr size_t kContextsUnopenedMax = 8;
// Communicators of one link that are open here.
inline constexpr size_t kContextsMax = kChannelsMax / 4 - kContextsUnopenedMax;

// --- receive credit ---------------------------------------------------------------------------
// Bytes per (link, channel) that may be sent before their receive is posted.
inline constexpr uint64_t kEagerBytes = 256 * 1024;

// --- paths ------------------------------------------------------------------------------------
// A path's window before its rate is known, and its smallest ever.
inline constexpr uint64_t kWindowBytesInitial = 128 * 1024;
inline constexpr uint64_t kWindowBytesMin = 16 * 1024;
inline constexpr uint64_t kWindowBytesMax = 16 * 1024 * 1024;
// The rate of a path, and of a NIC that relays, until it has shown its own, in bytes per ns: 30
// MB/s. A network of 250 Mbit/s has it, and a faster one shows more within milliseconds.
inline constexpr double kRateInitial = 0.03;
// Queueing delay that a window may add over min_rtt. At 250 Mbit/s this is 128 KB, which measured
// the full rate with acknowledgements in 4.4 ms; default socket buffers gave 17.5 ms.
inline constexpr TimeNs kWindowDuration = 4 * kMillisecond;
// Pause threshold: a rank that did not run for longer than this compensates its timers for the
// pause.
inline constexpr TimeNs kPauseThreshold = 3 * kMillisecond;
// A suspect path fails after this time without a sign of life, while the peer is alive elsewhere:
// no healthy one is silent for so long, since its margin is 60 ms. A connection that was silent for
// it waits for TCP's timer.
inline constexpr TimeNs kPathSilentAfter = 100 * kMillisecond;
// The same where the peer's kernel answers or data trickle: the path is slow or its process late.
inline constexpr TimeNs kPathStalledAfter = 400 * kMillisecond;
// A connection whose packets were lost for this long waits longer still, because TCP doubles its
// timer. A new connection need not.
inline constexpr TimeNs kPathUnacknowledgedAfter = 300 * kMillisecond;
// The last usable path does not become suspect; it fails only after this. A failover of a switch or
// a bond takes less, and no other path could take over.
inline constexpr TimeNs kLastPathPatience = 500 * kMillisecond;
// Paths of one link: NIC pairs, the out-of-band control stream and the relay path.
inline constexpr size_t kPathsMax = 66;
// NICs one rank may advertise.
inline constexpr size_t kNicsMax = 64;

// --- control frames ---------------------------------------------------------------------------
inline constexpr uint32_t kControlBodyBytesMax = 64 * 1024;
inline constexpr size_t kNoticeBytesMax = 4 * 1024;
// The reason that a program gives for its abort. It fits into the notice of the failure, beside the
// names of a rank and of its communicator.
inline constexpr size_t kAbortReasonBytesMax = 500;
// State that a data frame carries. It has room for the reports of fifty paths.
inline constexpr size_t kCarriedStateBytesMax = 2 * 1024;
// Delayed acknowledgement: a state change that delays no operation may wait this long for others.
inline constexpr TimeNs kDelayedAckTime = 500 * kMicrosecond;
// The receiver acknowledges after this much data, which is a part of the bytes that a path has
// outstanding by default.
inline constexpr uint64_t kDelayedAckBytes = 96 * 1024;
// Time that an acknowledgement of the peer's state version may wait.
inline constexpr TimeNs kVersionAckTime = 2 * kMillisecond;
// First wait before a rank retransmits unacknowledged state on another control stream. The wait
// doubles up to the second value.
inline constexpr TimeNs kStateResendMin = 8 * kMillisecond;
inline constexpr TimeNs kStateResendMax = 250 * kMillisecond;
// A link checks its control streams by heartbeats this often.
inline constexpr TimeNs kHeartbeatInterval = 1 * kSecond;
// Control streams that the idle links of one rank check in that time. A rank with no more streams
// checks all of them.
inline constexpr size_t kIdleChecksMax = 20;

// --- connections ------------------------------------------------------------------------------
inline constexpr size_t kPendingHandshakesMax = 256;
// First dials that a rank has open at a time, over all NICs, but at least one on each. Each needs
// the processes of both ranks several times; so many keep a rank busy while each of its peers waits
// for a processor.
inline constexpr size_t kFirstDialsMax = 64;
// Connections that a rank relays at a time. Each takes two descriptors, and a path two connections.
inline constexpr size_t kRelayPipesMax = 128;
inline constexpr TimeNs kHandshakeAgeMax = 5 * kSecond;
inline constexpr TimeNs kConnectAttempt = 250 * kMillisecond;

// The kernel tells each change of a NIC at once, but drops notices when its queue is full, and some
// sandboxes tell none. While a peer is silent this rank reads its NICs so often; while some path is
// down, more rarely: reading hundreds of them takes a millisecond.
inline constexpr TimeNs kNicsLookSilent = 250 * kMillisecond;
inline constexpr TimeNs kNicsLookDown = 5 * kSecond;

// A peer that nothing reaches for this long is told of in the log. Switches and busy hosts are
// silent for shorter times, and the line is due within a second.
inline constexpr TimeNs kUnreachedTold = 500 * kMillisecond;

// A path pauses this long when the kernel is short of memory for it, and a listener when it is
// short of descriptors. A shortage ends when other processes free memory; to try more often would
// only take processor time from them.
inline constexpr TimeNs kShortagePause = 10 * kMillisecond;

// --- verdicts -----------------------------------------------------------------------------------
// So many paths between two hosts that ended because of changed bytes, within this time, are no
// accident any more: TCP's checksum misses one damaged packet in 65,536, so a network that damages
// some by accident shows one such end in hours.
inline constexpr size_t kTamperedEnds = 3;
inline constexpr TimeNs kTamperedTime = 60 * kSecond;

// --- the log ------------------------------------------------------------------------------------
// Lines that wait for the log's reader: as many as a pipe of the kernel holds.
inline constexpr size_t kLogQueueBytes = 64 * 1024;
// The end of a communicator, or of the process, waits this long for lines that are not written yet.
// The wait ends when the writer has been in one write for kLogStuckTime: its reader has stalled.
inline constexpr TimeNs kLogFarewell = 1 * kSecond;
inline constexpr TimeNs kLogStuckTime = 100 * kMillisecond;

// --- status -------------------------------------------------------------------------------------
// Processes that may query one communicator at the same time. Further ones wait to be accepted.
inline constexpr size_t kStatusClientsMax = 8;
// A client sends its one line at once and reads the answer as it comes, so both times are generous.
inline constexpr TimeNs kStatusRequestTime = 1 * kSecond;
inline constexpr TimeNs kStatusAnswerTime = 10 * kSecond;
// An answer may be this old. The library makes texts at most this often, however many clients ask.
inline constexpr TimeNs kStatusFreshness = 100 * kMillisecond;
// The report of a job of 4,000 ranks with eight NICs.
inline constexpr size_t kStatusAnswerBytesMax = 16 * 1024 * 1024;
// A rank that has not answered in this time is stopped or cut off.
inline constexpr TimeNs kStatusQueryAnswerTime = 1 * kSecond;
inline constexpr TimeNs kStatusQueryTimeMax = 3 * kSecond;
// Ranks that are queried at a time. One that has not answered for kStatusQueryWait makes room for
// the next.
inline constexpr size_t kStatusQueryAskedMax = 64;
inline constexpr TimeNs kStatusQueryWait = 50 * kMillisecond;
// Different commands that may wait for a rank that accepts none. A further one gets no answer.
inline constexpr size_t kStatusQueryNoticesAhead = 16;
// Requests to probe that a localising rank waits for at a time. A further one gives up the oldest.
inline constexpr uint32_t kProbeQuestionsMax = 64;

// --- staging ----------------------------------------------------------------------------------
// Bytes of a communicator's staging pool, which takes receives that a reduction then reads.
inline constexpr size_t kStagingBytes = 8 * 1024 * 1024;
// Bytes of a communicator's scratch memory, which holds partial results that others return. Plans
// need no more (PlanLimits::spare_scratch_bytes). Only touched pages become resident.
inline constexpr size_t kScratchBytes = 10 * 1024 * 1024;
// Bytes of a communicator's wide memory (PlanLimits::wide_bytes), which holds partial sums of
// 16-bit types in float32. As with scratch memory, only touched pages become resident.
inline constexpr size_t kWideBytes = 8 * 1024 * 1024;

// --- plans ------------------------------------------------------------------------------------
// Plans that a communicator keeps ready. They are few enough for a linear search, and the second
// value bounds their steps (some 150 bytes each) for jobs whose plans are large.
inline constexpr size_t kPlansCachedMax = 32;
inline constexpr size_t kPlanStepsCachedMax = 128 * 1024;

}  // namespace r2ccl::limits
