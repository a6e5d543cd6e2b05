#include "api/child.h"

#include <algorithm>
#include <utility>

namespace r2ccl::api {

UniqueIdBytes without_secret(const UniqueId& id) {
  UniqueId told = id;
  told.job.secret = {};
  return encode(told);
}

std::function<Status()> failure_of(CommObject& parent) {
  return [comm = parent.weak_from_this()] {
    const auto living = comm.lock();
    return living != nullptr ? living->communicator->failure() : Status();
  };
}

bool wants_own_links(const Config& parent, const Config& child) {
  return parent.socket_ifname != child.socket_ifname || parent.oob_ifname != child.oob_ifname ||
         parent.cutoff_ns != child.cutoff_ns;
}

void set_place(CommunicatorOptions& options, Communicator& parent, const std::vector<Rank>& ranks,
               const View& view) {
  const auto place = std::ranges::find(ranks, parent.rank()) - ranks.begin();
  options.self = Rank(static_cast<int32_t>(place));
  options.rank_count = static_cast<int32_t>(ranks.size());
  Inherited inherited = parent.inherit(view, ranks);
  options.plan_costs = inherited.plan_costs;
  options.first_view = std::move(inherited.view);
}

Result<std::unique_ptr<Communicator>> make_child(Communicator& parent, CommunicatorOptions options,
                                                 ContextId context,
                                                 const std::vector<Rank>& ranks) {
  options.job = parent.options().job;
  options.library_version = parent.options().library_version;
  return Communicator::create_child(parent, options, context, ranks);
}

}  // namespace r2ccl::api
