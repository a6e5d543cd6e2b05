// The kinds of notices that ranks send each other through links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "protocol/delivery/notice_ledger.h"

namespace r2ccl {

enum class NoticeKind : uint8_t {
  failure = 1,       // the sender's communicator has failed: a Code, text of the root cause
  observation = 2,   // to the localising rank; subject: the path, or the peer that is gone
  verdict = 3,       // from the localising rank; subject: its number
  address = 4,       // a NIC of the sender has a new address; subject: the NIC
  calls = 5,         // the sender's latest calls: a CallReport; subject: its reason
  drained = 8,       // all NICs of the sender that are out of service: a NicSet
  losses = 13,       // to the localising rank: a LossReport
  view = 14,         // a ViewMessage; subject: the context and the message's type
  nic_report = 15,   // to the rank that decides: a NicReport on the NICs of the sender's host
  costs = 16,        // to rank 0: the sender's times of the patterns; from rank 0: the costs
  silent = 17,       // nothing comes from a rank, so ask it too; subject: the rank
  vouch = 18,        // the verdict of a higher rank (4 bytes) counts; subject: the rank, its number
  job_failure = 19,  // as `failure`, of all communicators of the sender's job
  ended = 20,        // the sender has left the communicator: after a `failure`, or after all its
                     // messages have arrived; no body
  shrink = 21,       // a ShrinkMessage; subject: its index
  excuse = 22,     // to the other end of a path that the sender has closed because of the bytes on
                   // it: an Observation; subject: the path
  nic_rates = 23,  // from the rank that decides: a RateTable
  question = 25,   // to a rank: a QueryMessage; subject: query_subject()
  answer = 26,     // to the rank that asked: the same
};

// A newer notice of the same kind, context and `subject` replaces an older one. Each kind defines
// its subjects. A notice of the job itself is one of the first context.
Notice make_notice(NoticeKind kind, uint64_t subject, std::span<const std::byte> body,
                   ContextId context = {});
// For kinds that have one subject: the latest notice counts.
inline Notice make_notice(NoticeKind kind, std::span<const std::byte> body) {
  return make_notice(kind, 0, body);
}

struct NoticeView {
  NoticeKind kind{};  // 0: there is none
  ContextId context;
  uint64_t subject = 0;  // of a context other than the first
  std::span<const std::byte> body;
};
// `bytes`: any bytes. A notice that is cut short has kind 0.
NoticeView view_notice(std::span<const std::byte> bytes);

}  // namespace r2ccl
