// Mutants break one rule of the contract on purpose, or (tune_) one of docs/tuning.md, so that
// tests can show that they would notice. They exist only in a build with R2CCL_MUTANTS. Everywhere
// else mutated() is a constant false, and the compiler removes the mutants.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace r2ccl {

#define R2CCL_MUTANT_LIST(X)                                                                       \
  X(none, "nothing is broken")                                                                     \
  X(complete_before_acknowledged, "a send is complete as soon as it is posted")                    \
  X(accept_every_copy, "a chunk that was accepted is accepted again")                              \
  X(accept_at_header, "a chunk is accepted, and acknowledged, when its header has arrived")        \
  X(no_redirect, "a copy that is half received goes on into its place when another was accepted")  \
  X(no_fence, "the NIC may still write to the place of a copy that is no longer wanted")           \
  X(no_release, "a cancelled send leaves its bytes where a connection still reads them")           \
  X(complete_in_place, "a send is complete while a connection still reads its bytes")              \
  X(recut, "the chunk size of a message changes with each chunk")                                  \
  X(reuse_number, "two messages get the same number")                                              \
  X(no_pad, "the tail of a superseded frame comes from the client's buffer")                       \
  X(no_keep, "the same after the remainder of a send was copied")                                  \
  X(trust_the_socket, "bytes written to a connection that broke count as received")                \
  X(no_replay, "the sender forgets the chunks outstanding on a path that failed")                  \
  X(own_low_water, "a sender counts how far it is ahead from its own first open message")          \
  X(no_permission, "chunks are sent without receive credit")                                       \
  X(any_incarnation, "frames and reports of an old incarnation count")                             \
  X(state_once, "state that was sent counts as acknowledged")                                      \
  X(notice_once, "a notice is sent only once")                                                     \
  X(one_slot, "a notice replaces an unapplied one about any other subject")                        \
  X(part_early, "goodbye is sent before everything is acknowledged")                               \
  X(ended_early, "a rank leaves a communicator before its messages have arrived")                  \
  X(closed_heard, "a chunk of a communicator that has ended is heard")                             \
  X(forget_at_once, "a channel is forgotten while copies of its chunks are under way")             \
  X(early_lost, "a notice for a communicator that is not made yet is lost")                        \
  X(ended_link_reused, "ranks that meet use the links of a job in which one has seen another end") \
  X(never_late, "no path is ever late")                                                            \
  X(suspect_for_ever, "a suspect path neither fails nor is cleared")                               \
  X(accuse_sleepers, "a path is late also when the peer answers on no other")                      \
  X(no_return, "a path that failed is not opened again")                                           \
  X(return_untold, "the higher rank does not call its peer when a NIC is back")                    \
  X(small_proof, "a path is up though full-size frames do not pass")                               \
  X(join_unasked, "the higher rank does not ask for data connections")                             \
  X(join_dead, "a data connection may join an incarnation that is over")                           \
  X(join_all, "every link opens its data connections at the start")                                \
  X(join_unproved, "a data connection that joins carries chunks at once")                          \
  X(one_stream, "an idle link checks the same control streams again and again")                    \
  X(old_address, "a NIC's new address is not reported")                                            \
  X(silent_close, "a rank that finalizes while its calls wait tells no one")                       \
  X(dead_connections, "connections that died unnoticed are not replaced")                          \
  X(staging_early, "a staging slot is reused before its reduction")                                \
  X(tagged_unordered, "frames of tagged messages are handled as they complete")                    \
  X(tagged_no_credit, "small tagged messages are sent whole without credit")                       \
  X(stale_deadline, "a link's deadline that moves forward does not wake the engine sooner")        \
  X(stalled_answers, "a path that stalled is said to answer though a probe found otherwise")       \
  X(any_order, "the bytes of a message may appear in any order")                                   \
  X(any_header, "a header's tag is not checked")                                                   \
  X(any_transmission, "a data frame need not be the next one of its stream")                       \
  X(believe_the_path, "a chunk that only its path counts is not retransmitted")                    \
  X(verdict_unvouched, "a lower rank does not vouch for the verdict of a higher one")              \
  X(host_unwitnessed, "a host is named though no working host has missed it")                      \
  X(tampered_at_once, "one frame that was changed in transit is a verdict")                        \
  X(bytes_untold, "an end that closes a path because of its bytes does not tell the other end")    \
  X(query_any_answer, "an answer that nobody asked for counts")                                    \
  X(query_no_end, "a rank that died is still expected to answer")                                  \
  X(stale_reports, "a report is not taken back when another rank judges")                          \
  X(loss_any_cover, "one of several NICs that explain a loss equally well is named")               \
  X(loss_one_period, "a pair of NICs is lossy after one period with a loss")                       \
  X(loss_congestion, "losses of other pairs and of the host's other NICs do not matter")           \
  X(loss_any_time, "losses of two pairs count for their common NIC at whatever times they were")   \
  X(loss_pairs, "a connection that breaks of a named loss has a verdict of its own")               \
  X(loss_in_vain, "a spurious retransmission counts as a loss")                                    \
  X(view_accept_bound, "a rank accepts a view from a collective on that it has bound")             \
  X(view_commit_early, "a view is committed before all ranks have accepted it")                    \
  X(view_ignore_commit, "a new proposer ignores that a view is committed")                         \
  X(view_late_commit, "a commit counts after a higher ballot has begun")                           \
  X(view_no_gate, "a rank binds a collective that it has promised not to bind")                    \
  X(view_overtaken, "a proposer goes on though a higher ballot has begun")                         \
  X(view_keep_gate, "an aborted view keeps its ranks from binding")                                \
  X(view_no_takeover, "no rank decides for a proposer that has gone")                              \
  X(view_send_once, "a message about a view is not sent again")                                    \
  X(view_undamped, "a NIC that flaps changes the view as soon as one that does not")               \
  X(health_leader_nics, "a host has the NICs of its lowest rank alone")                            \
  X(health_plan_apart, "the plans take no account of a verdict")                                   \
  X(health_any_rank, "a rank may report NICs that it does not use")                                \
  X(view_rate_any, "a NIC counts as slow when all NICs of the host are")                           \
  X(view_after_leave, "a view is committed though a rank has left that may have bound its start")  \
  X(view_reach_all, "a NIC that misses only lost NICs of its rail counts as lost")                 \
  X(view_rails_by_order, "a rank's i-th NIC is on rail i, whatever its subnet")                    \
  X(shrink_early, "a smaller communicator is made before all of its ranks have called")            \
  X(shrink_late_commit, "a coordinator's decision counts after another one has asked")             \
  X(shrink_forget, "a new coordinator does not ask whether the communicator is made")              \
  X(shrink_no_takeover, "no rank decides for a coordinator that has gone")                         \
  X(shrink_stale, "a call that has ended is told again and counts")                                \
  X(shrink_silent_leave, "a rank leaves without telling which communicators it has made")          \
  X(relay_never, "no rank relays")                                                                 \
  X(relay_tail, "a pipe ends without the bytes that it still holds")                               \
  X(relay_unbounded, "a pipe gives its NIC as much as the kernel takes")                           \
  X(relay_preferred, "the relay path carries on when an ordinary path has returned")               \
  X(dead_in_the_dark, "a path in a black hole hides that its peer has died")                       \
  X(relay_blamed, "a relay path that ends is a fault of this host's network")                      \
  X(tune_margin_cap, "a path's own error gives it time without bound")                             \
  X(tune_margin_error, "the loss timeout margin ignores the error of the predictions")             \
  X(tune_margin_window, "the margin has no time for a smallest window ahead")                      \
  X(tune_margin_unknown, "a path without an answer has the usual margin")                          \
  X(tune_window_late, "a window has no time for late acknowledgements")                            \
  X(tune_window_shared, "the time for late acknowledgements counts in full on a shared NIC")       \
  X(tune_window_filled, "a window grows though it was not half full")                              \
  X(tune_window_slow_start, "a window grows to its target at once")                                \
  X(tune_correct_delay, "a delay guessed before the rate was known stays")                         \
  X(tune_probation, "a fast probe is believed at once")                                            \
  X(tune_no_probe, "a path that looks slow is never probed")                                       \
  X(tune_rate_any, "an interval that was not full lowers the rate")                                \
  X(tune_rate_suspect, "lateness under suspicion lowers no rate")                                  \
  X(tune_believed, "the highest app-limited sample counts, not the median")                        \
  X(tune_prior, "a prior counts in full beside known rates")                                       \
  X(tune_peer_suspects, "the peer's suspicion does not matter")                                    \
  X(tune_backlog, "a chunk takes no slower path while the rest takes longer")                      \
  X(tune_never_wait, "a chunk never waits for a better path")                                      \
  X(tune_paths_for, "a message is cut for all paths")                                              \
  X(tune_chunk_shared, "a shared NIC sizes no chunk")                                              \
  X(tune_cut_early, "a message is cut before a path carries chunks")                               \
  X(tune_doubtful, "a chunk on a path on probation has no copy")                                   \
  X(tune_suspect_hedge, "the chunks of a suspect path have no hedge")                              \
  X(tune_nic_time, "the bytes of other links on a NIC have no time")                               \
  X(tune_nic_short, "short busy times of a NIC do not count together")                             \
  X(tune_control_prompt, "every control stream counts as prompt")                                  \
  X(tune_control_turn, "slow control streams take their turn")                                     \
  X(tune_unacknowledged, "a connection owed an answer for 300 ms has the usual time")              \
  X(tune_sign_of_life, "a suspect path with a sign of life has no more time")                      \
  X(tune_last_path, "the last path fails like any other")                                          \
  X(tune_ask_kernel, "no new connection asks a silent peer's kernel")                              \
  X(tune_stops, "a stop of this rank counts against its paths")                                    \
  X(tune_stop_signs, "a stop of this rank ends the signs of life before it")                       \
  X(tune_ping_acked, "an acknowledged ping of a suspect path is no sign of life")                  \
  X(tune_heartbeat_ends, "both ends of a link send heartbeats")                                    \
  X(tune_heartbeat_turns, "idle links take no turns, however many a rank has")                     \
  X(tune_heartbeat_work, "a link that works pings only some control streams")                      \
  X(tune_full_queue, "a loss of a full queue counts as one of a bad NIC")                          \
  X(tune_flap_penalty, "a path that flaps has no penalty")

enum class Mutant : uint8_t {
#define R2CCL_MUTANT_NAME(name, what) name,
  R2CCL_MUTANT_LIST(R2CCL_MUTANT_NAME)
#undef R2CCL_MUTANT_NAME
};

#ifdef R2CCL_MUTANTS
// Returns the mutant that R2CCL_MUTANT names, so that a test program runs with a broken rule.
inline Mutant mutant_of_environment() {
  const char* wanted = std::getenv("R2CCL_MUTANT");
  if (wanted == nullptr) return Mutant::none;
#define R2CCL_MUTANT_FIND(name, what) \
  if (std::strcmp(wanted, #name) == 0) return Mutant::name;
  R2CCL_MUTANT_LIST(R2CCL_MUTANT_FIND)
#undef R2CCL_MUTANT_FIND
  std::fprintf(stderr, "R2CCL_MUTANT: no mutant is called %s\n", wanted);
  std::abort();
}
inline Mutant active_mutant = mutant_of_environment();
inline bool mutated(Mutant mutant) {
  return active_mutant == mutant;
}
#else
constexpr bool mutated(Mutant) {
  return false;
}
#endif

}  // namespace r2ccl
