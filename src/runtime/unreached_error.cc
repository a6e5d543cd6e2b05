#include "runtime/unreached_error.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/peers/tell_hosts_apart.h"

namespace r2ccl {
namespace {

bool was_ready(const Link& link) {
  return std::ranges::any_of(link.paths(),
                             [](const Path* path) { return path->history.downs > 0; });
}

// A rank whose own time is up leaves. Its links were ready, so it is not at fault.
std::vector<Rank> never_reached(const ProgressEngine& engine) {
  std::vector<Rank> ranks = engine.unreached();
  std::vector<Rank> never;
  std::ranges::copy_if(ranks, std::back_inserter(never),
                       [&](Rank rank) { return !was_ready(*engine.link(rank)); });
  return never.empty() ? ranks : never;
}

constexpr const char* kCompareHosts =
    "compare `r2ccl info` on both hosts. A proxy that redirects TCP, as in a service mesh such as "
    "Istio, lets ranks meet and keeps their NICs apart: exclude r2ccl's ports, or the pods, from "
    "it";

std::string advice(const ProgressEngine& engine, const std::vector<Rank>& unreached) {
  for (const Rank rank : unreached) {
    const RankInfo& peer = engine.job().info(rank);
    if (peer.host == engine.own_info().host) continue;
    const std::string same = same_addresses(engine.own_info(), peer);
    if (!same.empty()) {
      return same +
             ", as containers of two hosts may: give each an address of its own that the others "
             "reach, or let them use their hosts' network";
    }
    const std::string apart = networks_apart(engine.own_info(), peer);
    if (apart.empty()) continue;
    return apart +
           ", and no two of these are in one network: let R2CCL_SOCKET_IFNAME choose NICs of one "
           "network on both, or unset it; or make the networks reach each other by a router. A "
           "container's published port serves the meeting only: let containers use their hosts' "
           "network";
  }
  return kCompareHosts;
}

}  // namespace

Status unreached_error(RankRuntime& runtime) {
  const ProgressEngine& engine = runtime.engine();
  std::vector<Rank> unreached = never_reached(engine);
  R2CCL_CHECK(!unreached.empty());
  std::string missing;
  std::string why;
  for (const Rank rank : unreached) {
    missing += (missing.empty() ? "" : ", ") + runtime.name_of(rank);
    if (why.empty()) why = engine.link(rank)->last_dial_failure();
  }
  if (!why.empty()) why = " (the last attempt: " + why + ")";
  const Status late(Code::timeout, "no NIC of " + runtime.name_of(engine.self()) + " reaches " +
                                       missing + why + "; " + advice(engine, unreached));
  return late.with_ranks(std::move(unreached));
}

Status unmeasured_error(const RankRuntime& runtime) {
  std::vector<Rank> missing = runtime.unmeasured();
  std::string names;
  for (const Rank rank : missing) names += (names.empty() ? "" : ", ") + runtime.name_of(rank);
  const Status late(Code::timeout, "the start has not ended in time: there is no answer from " +
                                       names + ". If some rank does not reach another one, " +
                                       kCompareHosts);
  return late.with_ranks(std::move(missing));
}

}  // namespace r2ccl
