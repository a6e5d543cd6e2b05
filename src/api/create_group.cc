// r2cclCommCreateGroup: a communicator of which its members alone know, and that exchanges nothing.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/child.h"
#include "api/init.h"
#include "base/limits.h"

namespace r2ccl::api {
namespace {

constexpr const char* kFunction = "r2cclCommCreateGroup";

struct GroupWish {
  std::span<const int> ranks;
  const char* name = nullptr;
  const r2cclConfig_t* config = nullptr;
};

Status wrong(const std::string& text) {
  return {Code::invalid_argument, std::string(kFunction) + ": " + text};
}

Result<std::vector<Rank>> members_of(const Communicator& parent, std::span<const int> given) {
  std::vector<Rank> ranks;
  for (const int rank : given) {
    if (rank < 0 || rank >= parent.rank_count()) {
      return wrong("ranks has " + std::to_string(rank) + ", it must be 0 to " +
                   std::to_string(parent.rank_count() - 1));
    }
    if (std::ranges::find(ranks, Rank(rank)) != ranks.end()) {
      return wrong("ranks has " + std::to_string(rank) + " twice");
    }
    ranks.emplace_back(rank);
  }
  if (std::ranges::find(ranks, parent.rank()) == ranks.end()) {
    return wrong("ranks lacks this rank, " + std::to_string(parent.rank().value()) +
                 ": only the members call it");
  }
  return ranks;
}

Result<std::unique_ptr<Communicator>> create_group(Communicator& parent, const GroupWish& wish) {
  if (wish.name == nullptr) return wrong("name is NULL");
  if (strnlen(wish.name, limits::kGroupNameBytesMax + 1) > limits::kGroupNameBytesMax) {
    return wrong("name has more than " + std::to_string(limits::kGroupNameBytesMax) + " bytes");
  }
  auto ranks = members_of(parent, wish.ranks);
  if (!ranks.ok()) return ranks.status();
  auto config = child_config(parent.options().config, wish.config);
  if (!config.ok()) return config.status().with_context(kFunction);
  if (wants_own_links(parent.options().config, config.value())) {
    return wrong(
        "config has an ifname, oob_ifname or cutoff_ms other than comm's: the links that "
        "both use have these settings");
  }
  CommunicatorOptions options;
  options.config = std::move(config).value();
  set_place(options, parent, ranks.value(), {});
  const ContextId context = parent.children().of_group(ranks.value(), wish.name);
  auto made = make_child(parent, std::move(options), context, ranks.value());
  if (!made.ok()) return made.status().with_context(kFunction);
  return made;
}

}  // namespace
}  // namespace r2ccl::api

extern "C" r2cclResult_t r2cclCommCreateGroup(r2cclComm_t comm, const int* ranks, size_t count,
                                              const char* name, r2cclComm_t* newcomm,
                                              const r2cclConfig_t* config) {
  using namespace r2ccl::api;
  if (newcomm != nullptr) *newcomm = nullptr;
  return with_comm(kFunction, comm, [&](CommObject* parent) -> r2cclResult_t {
    // A failure of comm need not concern the members.
    if (const auto open = check_not_finalized(kFunction, parent); !open.ok()) {
      return result_of(open);
    }
    if (newcomm == nullptr) return result_of(wrong("newcomm is NULL"));
    if (ranks == nullptr || count == 0) return result_of(wrong("ranks is NULL, or count is 0"));
    auto made = create_group(*parent->communicator, {{ranks, count}, name, config});
    if (!made.ok()) return result_of(made.status());
    *newcomm = adopt(std::move(made).value());
    return r2cclSuccess;
  });
}
