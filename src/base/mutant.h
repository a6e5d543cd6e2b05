// Mutants break one rule of the contract on purpose, so that tests can show that they would notice.
// They exist only in a build with R2CCL_MUTANTS. Everywhere else mutated() is a constant false, and
// the compiler removes the mutants.
#pragma once

#include <cstdint>
#include <cstring>

namespace r2ccl {

#define R2CCL_MUTANT_LIST(X)                                                                      \
  X(none, "nothing is broken")                                                                    \
  X(complete_before_acknowledged, "a send is complete as soon as it is posted")                   \
  X(accept_every_copy, "a chunk that was accepted is accepted again")                             \
  X(accept_at_header, "a chunk is accepted, and acknowledged, when its header has arrived")       \
  X(no_redirect, "a copy that is half received goes on into its place when another was accepted") \
  X(no_fence, "the NIC may still write where a copy went that is not wanted any more")            \
  X(recut, "a message is cut anew for each chunk")                                                \
  X(reuse_number, "a message number is given twice")                                              \
  X(no_pad, "the tail of a superseded frame comes from the client's buffer")                      \
  X(no_keep, "the same when the rest of a send was copied")                                       \
  X(trust_the_socket, "what was written to a connection that broke counts as received")           \
  X(no_replay, "what was under way on a path that broke is forgotten")                            \
  X(own_low_water, "a sender counts how far it is ahead from its own first open message")         \
  X(no_permission, "chunks are sent without permission")                                          \
  X(no_pace, "chunks are sent beyond the pace of the receiving NIC")                              \
  X(old_pace, "a new connection has the pace that was granted to the old one")                    \
  X(any_incarnation, "frames and reports of an old incarnation count")                            \
  X(state_once, "state that was said counts as heard")                                            \
  X(notice_once, "a notice is said once")                                                         \
  X(one_slot, "a notice replaces one that the peer has not applied, whatever both are about")     \
  X(part_early, "goodbye is said before everything is acknowledged")                              \
  X(never_late, "nobody looks whether a path is late")                                            \
  X(suspect_for_ever, "a suspect path neither fails nor is cleared")                              \
  X(accuse_sleepers, "a path is late also when nobody answers on any other")                      \
  X(no_return, "a path that failed is not opened again")                                          \
  X(small_proof, "a path is up though full-size frames do not pass")                              \
  X(old_address, "a NIC's new address is not told")                                               \
  X(dead_connections, "connections that went dead unseen are not replaced")                       \
  X(staging_early, "a staging slot is given away before it is reduced")                           \
  X(any_header, "a header's tag is not looked at")                                                \
  X(any_transmission, "a data frame need not be the next one of its stream")                      \
  X(believe_the_path, "a chunk that its path counts is not sent again though nobody lists it")    \
  X(host_unwitnessed, "a host is named though no host that works has missed it")                  \
  X(stale_reports, "a report is not taken back when another rank judges")                         \
  X(loss_any_cover, "one of several NICs that explain a loss equally well is named")              \
  X(loss_one_period, "a pair of NICs is lossy after one period with a loss")                      \
  X(loss_congestion, "what other pairs and the host's other NICs lose is no matter")              \
  X(loss_pairs, "connections that break of a loss that is named have verdicts of their own")      \
  X(loss_in_vain, "a retransmission of what the peer had already counts as a loss")

enum class Mutant : uint8_t {
#define R2CCL_MUTANT_NAME(name, what) name,
  R2CCL_MUTANT_LIST(R2CCL_MUTANT_NAME)
#undef R2CCL_MUTANT_NAME
};

#ifdef R2CCL_MUTANTS
inline Mutant active_mutant = Mutant::none;
inline bool mutated(Mutant mutant) {
  return active_mutant == mutant;
}
#else
constexpr bool mutated(Mutant) {
  return false;
}
#endif

}  // namespace r2ccl
