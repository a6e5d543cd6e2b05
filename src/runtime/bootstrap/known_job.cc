#include "runtime/bootstrap/known_job.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/mutant.h"
#include "protocol/wire/byte_io.h"
#include "runtime/bootstrap/rank_info.h"

namespace r2ccl {
namespace {

crypto::Hash proof_of(const KnownJob& known, const RunIdentity& run,
                      std::span<const std::byte> meeting, Rank self) {
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.put_bytes(meeting);
  out.put(static_cast<uint32_t>(self.value()));
  out.put(static_cast<uint32_t>(known.peer.value()));
  for (const Rank rank : known.parted) out.put(static_cast<uint32_t>(rank.value()));
  return crypto::derive(run.key.key(), "r2ccl run 2: known", input);
}

const KnownJob* find(const RankInfo& info, std::span<const std::byte> run) {
  const auto at = std::ranges::find_if(
      info.known_jobs, [&](const KnownJob& each) { return std::ranges::equal(each.run, run); });
  return at == info.known_jobs.end() ? nullptr : &*at;
}

bool is_parted(const KnownJob& known, Rank peer) {
  return std::ranges::find(known.parted, peer) != known.parted.end();
}

// Returns no peers unless the job is common to all ranks.
std::vector<Rank> peers_in(const RunIdentity& run, std::span<const RankInfo> rank_table,
                           std::span<const std::byte> meeting) {
  std::vector<const KnownJob*> told;
  std::vector<Rank> peers;
  for (const RankInfo& info : rank_table) {
    const KnownJob* known = find(info, run.id);
    if (known == nullptr || !crypto::equal(known->proof, proof_of(*known, run, meeting, info.rank)))
      return {};
    told.push_back(known);
    peers.push_back(known->peer);
  }
  std::vector<Rank> sorted = peers;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return {};
  const bool lives = std::ranges::none_of(told, [&](const KnownJob* known) {
    return std::ranges::any_of(peers, [&](Rank peer) { return is_parted(*known, peer); });
  });
  return lives || mutated(Mutant::ended_link_reused) ? peers : std::vector<Rank>();
}

}  // namespace

void prove(KnownJob& known, const RunIdentity& run, std::span<const std::byte> meeting, Rank self) {
  known.proof = proof_of(known, run, meeting, self);
}

std::optional<CommonJob> find_common_job(std::span<const RankInfo> rank_table,
                                         std::span<const std::byte> meeting,
                                         const FindRun& find_run) {
  for (const KnownJob& known : rank_table.front().known_jobs) {
    const RunIdentity* run = find_run(known.run);
    if (run == nullptr) continue;
    std::vector<Rank> peers = peers_in(*run, rank_table, meeting);
    if (!peers.empty()) return CommonJob{known.run, std::move(peers)};
  }
  return {};
}

}  // namespace r2ccl
