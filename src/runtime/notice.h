// The kinds of notices that ranks send each other through links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace r2ccl {

enum class NoticeKind : uint8_t {
  failure = 1,         // the sender's communicator has failed: a Code, text of the root cause
  observation = 2,     // to the judging rank
  verdict = 3,         // from the judging rank
  address = 4,         // a NIC of the sender has a new address
  calls = 5,           // what the sender has called: a CallReport
  status_request = 6,  // how is the receiver? The number of the question (4 bytes)
  status = 7,          // the answer: the question's number (4 bytes), the sender's summary
  drained = 8,         // the sender's NICs that are out of service, all of them: a NicSet
  drain_question = 9,  // about a NIC of any rank: a DrainQuestion
  drain_answer = 10,   // to the rank that asked: a DrainAnswer
  probe_request = 11,  // from the judging rank: reach the NICs of some hosts
  probe_answer = 12,   // to the judging rank: which were reached
  losses = 13,         // to the judging rank: a LossReport
};

inline std::vector<std::byte> make_notice(NoticeKind kind, std::span<const std::byte> body) {
  std::vector<std::byte> bytes;
  bytes.reserve(body.size() + 1);
  bytes.push_back(static_cast<std::byte>(kind));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

}  // namespace r2ccl
