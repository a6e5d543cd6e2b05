// Every bound of the library in one place, with the reason for its size. Memory of one communicator
// of p ranks is at most
//   staging + (p - 1) * (2 * eager + paths * (window buffers in the kernel + scratch)).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace r2ccl::limits {

// --- chunks: the unit of dispatch, acknowledgement and replay ---------------------------------
inline constexpr uint32_t kChunkBytesMin = 4 * 1024;
inline constexpr uint32_t kChunkBytesMax = 1024 * 1024;
inline constexpr uint32_t kChunkAlignment = 64;
// A chunk should keep the fastest path busy for this long: short enough that the loss of one costs
// little, long enough that its header and its acknowledgement do too.
inline constexpr TimeNs kChunkDuration = 1'500 * kMicrosecond;
// Chunks of one message that may lie beyond its first unacknowledged chunk: what one
// acknowledgement's bitmap can describe.
inline constexpr uint32_t kAckBitmapChunks = 1024;

// --- messages ---------------------------------------------------------------------------------
// Point-to-point transfers are cut into messages of at most this size.
inline constexpr uint64_t kMessageBytesMax = 16 * 1024 * 1024;
// Messages up to this size are copied when they are sent, within the bound per channel, so that a
// small operation need not wait for its last acknowledgements: the copy takes microseconds, the
// round trip a good part of a millisecond.
inline constexpr uint64_t kBufferedSendBytesMax = 32 * 1024;
inline constexpr uint64_t kBufferedBytesPerChannel = 1024 * 1024;
// Messages that a sender may have open beyond the receiver's low-water mark, per channel.
inline constexpr uint64_t kMessagesAheadMax = 4096;
// Messages posted on a channel, per peer and direction, from the oldest unfinished one on: deep
// enough for any pipeline, well inside the bound above, and so that memory does not grow with an
// operation.
inline constexpr uint64_t kMessagesPostedMax = 1024;

// --- jobs -------------------------------------------------------------------------------------
// Ranks of one job: bounds what one stranger can make the rendezvous of an unauthenticated job
// keep.
inline constexpr int32_t kRanksMax = 1 << 16;

// --- channels -----------------------------------------------------------------------------------
// Channels of one link: two for each communicator. Their marks must fit into one control frame.
inline constexpr size_t kChannelsMax = 512;
// Of these, channels that the peer has used before this rank has opened them: it may be ahead by
// the creation of some communicators, and each may hold an eager pool's bytes here.
inline constexpr size_t kChannelsUnopenedMax = 32;

// --- permission and pace ----------------------------------------------------------------------
// Bytes per (link, channel) that may be sent before their receive is posted.
inline constexpr uint64_t kEagerBytes = 256 * 1024;
// What one sender may always have on the way to a NIC, however many senders share it: its smallest
// window, so that no sender starves.
inline constexpr uint64_t kPaceShareMin = 16 * 1024;
// For so long after trouble a sender may have a window more than that under way: what was on paths
// that broke moves to others at once.
inline constexpr TimeNs kOverdrawTime = 100 * kMillisecond;
// A NIC's window before its rate is known.
inline constexpr uint64_t kPaceWindowMin = 256 * 1024;

// --- paths ------------------------------------------------------------------------------------
// A path's window before its rate is known, and its smallest ever.
inline constexpr uint64_t kWindowBytesInitial = 128 * 1024;
inline constexpr uint64_t kWindowBytesMin = 16 * 1024;
inline constexpr uint64_t kWindowBytesMax = 16 * 1024 * 1024;
// Queueing delay that a window may add over the base delay: at 250 Mbit/s 128 KB, which measured
// full rate with acknowledgements in 4.4 ms, where default socket buffers gave 17.5 ms.
inline constexpr TimeNs kWindowDuration = 4 * kMillisecond;
// Time in which a rank did not run counts against nobody, if it is more than this.
inline constexpr TimeNs kExcusedGap = 3 * kMillisecond;
// Paths of one link: NIC pairs plus the out-of-band lane.
inline constexpr size_t kPathsMax = 65;
// NICs one rank may advertise.
inline constexpr size_t kNicsMax = 64;

// --- control frames ---------------------------------------------------------------------------
inline constexpr uint32_t kControlBodyBytesMax = 64 * 1024;
inline constexpr size_t kNoticeBytesMax = 4 * 1024;
// News that nobody waits for may stay this long for company.
inline constexpr TimeNs kNewsDelay = 500 * kMicrosecond;
// So much received data is acknowledged at once: a part of what a path has under way by default.
inline constexpr uint64_t kNewsBytes = 96 * 1024;
// How long the peer's news may wait before it is reflected.
inline constexpr TimeNs kReflectDelay = 2 * kMillisecond;
// First wait before unreflected state is sent again on another lane; doubles up to the second
// value.
inline constexpr TimeNs kStateResendMin = 8 * kMillisecond;
inline constexpr TimeNs kStateResendMax = 250 * kMillisecond;
// An idle lane says that it lives this often.
inline constexpr TimeNs kHeartbeatInterval = 1 * kSecond;

// --- connections ------------------------------------------------------------------------------
inline constexpr size_t kPendingHandshakesMax = 256;
inline constexpr TimeNs kHandshakeAgeMax = 5 * kSecond;
inline constexpr TimeNs kConnectAttempt = 250 * kMillisecond;

// So long a path rests when the kernel is short of memory for it. A shortage ends when others free
// memory; to try more often would only take processor from them.
inline constexpr TimeNs kShortagePause = 10 * kMillisecond;

// --- status -------------------------------------------------------------------------------------
// Processes that ask one communicator at the same time; the others wait to be let in.
inline constexpr size_t kStatusClientsMax = 8;
// One line comes at once from a process that means it; an answer is taken by whoever reads it.
inline constexpr TimeNs kStatusRequestTime = 1 * kSecond;
inline constexpr TimeNs kStatusAnswerTime = 10 * kSecond;
// An answer may be so old: texts are made at most so often, however many ask.
inline constexpr TimeNs kStatusFreshness = 100 * kMillisecond;
// The report of a job of 4,000 ranks with eight NICs.
inline constexpr size_t kStatusAnswerBytesMax = 16 * 1024 * 1024;
// A rank that has not answered in this time is stopped or cut off.
inline constexpr TimeNs kSurveyAnswerTime = 1 * kSecond;
inline constexpr TimeNs kSurveyTimeMax = 3 * kSecond;
// Ranks that are asked at a time; one that has not answered for a while makes room for the next.
inline constexpr size_t kSurveyAskedMax = 64;
inline constexpr TimeNs kSurveyPatience = 50 * kMillisecond;
// Different commands that wait for a rank which takes none: a further one gets no answer.
inline constexpr size_t kSurveyNoticesAhead = 16;

// --- staging ----------------------------------------------------------------------------------
// Bytes of a communicator's staging pool, where receives that will be reduced land.
inline constexpr size_t kStagingBytes = 8 * 1024 * 1024;

// --- plans ------------------------------------------------------------------------------------
// Plans that a communicator keeps ready: few enough to be searched one by one, and a bound on their
// steps (some 150 bytes each) for jobs whose plans are large.
inline constexpr size_t kPlansCachedMax = 32;
inline constexpr size_t kPlanStepsCachedMax = 128 * 1024;

}  // namespace r2ccl::limits
