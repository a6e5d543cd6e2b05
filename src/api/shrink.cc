// r2cclCommShrink and r2cclCommRevoke: going on without ranks that have died, or are not wanted.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/child.h"
#include "api/group.h"
#include "api/init.h"

namespace r2ccl::api {
namespace {

constexpr const char* kShrink = "r2cclCommShrink";

Status shrink_wrong(const std::string& text) {
  return {Code::invalid_argument, std::string(kShrink) + ": " + text};
}

// The error names no rank at fault: the one that revokes goes on.
Status revoked(const std::string& why) {
  return {Code::aborted, why};
}

// Returns the excluded ranks in ascending order.
Result<std::vector<Rank>> excluded_of(const Communicator& comm, std::span<const int> given) {
  std::vector<Rank> excluded;
  for (const int rank : given) {
    if (rank < 0 || rank >= comm.rank_count()) {
      return shrink_wrong("excludeRanksList has " + std::to_string(rank) + ", it must be 0 to " +
                          std::to_string(comm.rank_count() - 1));
    }
    if (Rank(rank) == comm.rank()) {
      return shrink_wrong("excludeRanksList has this rank, " + std::to_string(rank) +
                          ": an excluded rank does not call it");
    }
    excluded.emplace_back(rank);
  }
  std::ranges::sort(excluded);
  if (std::ranges::adjacent_find(excluded) != excluded.end()) {
    return shrink_wrong("excludeRanksList has a rank twice");
  }
  return excluded;
}

std::vector<Rank> others(const Communicator& comm, const std::vector<Rank>& excluded) {
  std::vector<Rank> kept;
  for (int32_t rank = 0; rank < comm.rank_count(); ++rank) {
    if (!std::ranges::binary_search(excluded, Rank(rank))) kept.emplace_back(rank);
  }
  return kept;
}

Result<std::unique_ptr<Communicator>> shrink(Communicator& parent,
                                             const std::vector<Rank>& excluded,
                                             const r2cclConfig_t* given, bool abort) {
  auto config = child_config(parent.options().config, given);
  if (!config.ok()) return config.status().with_context(kShrink);
  if (wants_own_links(parent.options().config, config.value())) {
    return shrink_wrong(
        "config has an ifname, oob_ifname or cutoff_ms other than comm's: the links that "
        "both use have these settings");
  }
  if (abort) parent.fail(revoked("r2cclCommShrink with R2CCL_SHRINK_ABORT was called"));
  auto agreed = parent.agree_without(excluded);
  if (!agreed.ok()) return agreed.status().with_context(kShrink);
  CommunicatorOptions options;
  options.config = std::move(config).value();
  const std::vector<Rank> ranks = others(parent, excluded);
  set_place(options, parent, ranks, agreed.value().view);
  auto made = make_child(parent, std::move(options), agreed.value().context, ranks);
  if (!made.ok()) return made.status().with_context(kShrink);
  return made;
}

}  // namespace
}  // namespace r2ccl::api

extern "C" {

r2cclResult_t r2cclCommShrink(r2cclComm_t comm, const int* excludeRanksList, int excludeRanksCount,
                              r2cclComm_t* newcomm, const r2cclConfig_t* config, int shrinkFlags) {
  using namespace r2ccl::api;
  if (newcomm != nullptr) *newcomm = nullptr;
  return with_comm(kShrink, comm, [&](CommObject* parent) -> r2cclResult_t {
    if (const auto outside = check_outside_group(kShrink); !outside.ok()) {
      return result_of(outside);
    }
    // A failure of comm is no obstacle.
    if (const auto open = check_not_finalized(kShrink, parent); !open.ok()) return result_of(open);
    if (newcomm == nullptr) return result_of(shrink_wrong("newcomm is NULL"));
    if (excludeRanksCount < 0 || (excludeRanksList == nullptr && excludeRanksCount > 0)) {
      return result_of(shrink_wrong("excludeRanksList is NULL, or excludeRanksCount is negative"));
    }
    if (shrinkFlags != R2CCL_SHRINK_DEFAULT && shrinkFlags != R2CCL_SHRINK_ABORT) {
      return result_of(
          shrink_wrong("shrinkFlags is neither R2CCL_SHRINK_DEFAULT nor R2CCL_SHRINK_ABORT"));
    }
    const std::span<const int> given(excludeRanksList, static_cast<size_t>(excludeRanksCount));
    const auto excluded = excluded_of(*parent->communicator, given);
    if (!excluded.ok()) return result_of(excluded.status());
    auto made =
        shrink(*parent->communicator, excluded.value(), config, shrinkFlags == R2CCL_SHRINK_ABORT);
    if (!made.ok()) return result_of(made.status());
    *newcomm = adopt(std::move(made).value());
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclCommRevoke(r2cclComm_t comm, int revokeFlags) {
  using namespace r2ccl::api;
  return with_comm("r2cclCommRevoke", comm, [&](CommObject* object) -> r2cclResult_t {
    if (revokeFlags != 0) {
      return error(r2ccl::Code::invalid_argument, "r2cclCommRevoke: revokeFlags is not 0");
    }
    object->communicator->fail(revoked("r2cclCommRevoke was called"));
    return r2cclSuccess;
  });
}

}  // extern "C"
