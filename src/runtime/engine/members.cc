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

JobMap map_of(const JobMap& job, Rank self, const std::vector<Rank>& peers) {
  std::vector<RankInfo> infos;
  infos.reserve(peers.size());
  for (const Rank peer : peers) {
    infos.push_back(job.info(peer));
    infos.back().rank = Rank(static_cast<int32_t>(infos.size() - 1));
  }
  return {self, std::move(infos)};
}

}  // namespace

Members::Members(ProgressEngine& engine)
    : engine_(engine), peers_(all_of(engine.job())), ranks_(peers_) {}

Members::Members(ProgressEngine& engine, ContextId context, Rank self, std::vector<Rank> peers)
    : engine_(engine),
      context_(context),
      peers_(std::move(peers)),
      ranks_(inverse(peers_, engine.job().size())),
      own_map_(std::make_unique<JobMap>(map_of(engine.job(), self, peers_))) {}

}  // namespace r2ccl
