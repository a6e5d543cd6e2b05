#include "runtime/engine/members.h"

namespace r2ccl {
namespace {

std::vector<Rank> all_of(const JobMap& job) {
  std::vector<Rank> peers;
  for (const RankInfo& info : job.ranks()) peers.push_back(info.rank);
  return peers;
}

std::vector<Rank> inverse(const std::vector<Rank>& peers, size_t job_size) {
  std::vector<Rank> ranks(job_size, kNoRank);
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    ranks[static_cast<size_t>(peers[rank].value())] = Rank(static_cast<int32_t>(rank));
  }
  return ranks;
}

HostMap map_of(const JobMap& job, const std::vector<Rank>& peers) {
  std::vector<uint32_t> host_of;
  for (const Rank peer : peers) host_of.push_back(job.host_of(peer));
  return HostMap(host_of);
}

}  // namespace

Members::Members(ProgressEngine& engine)
    : engine_(engine), self_(engine.self()), peers_(all_of(engine.job())), ranks_(peers_) {}

Members::Members(ProgressEngine& engine, ContextId context, Rank self, std::vector<Rank> peers)
    : engine_(engine),
      context_(context),
      self_(self),
      peers_(std::move(peers)),
      ranks_(inverse(peers_, engine.job().size())),
      own_map_(std::make_unique<const HostMap>(map_of(engine.job(), peers_))) {}

std::vector<const RankInfo*> Members::infos() const {
  std::vector<const RankInfo*> all;
  for (const Rank peer : peers_) all.push_back(&engine_.job().info(peer));
  return all;
}

}  // namespace r2ccl
