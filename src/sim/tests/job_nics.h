// A fixture for tests of the rates that the ranks of a simulated job know. Each rank is a host of
// its own and uses all NICs of the host, unless a test says otherwise.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/health/nic_health.h"
#include "runtime/job.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"
#include "sim/trial/end_check.h"

namespace r2ccl::sim {

// Hosts and their NICs.
using Places = std::set<std::pair<int, int>>;

class JobNics : public testing::Test {
 protected:
  void start(int hosts, int nics, ClusterOptions options = {}) {
    options.hosts = hosts;
    options.nics = nics;
    dead_.clear();
    cluster_.emplace(options);
    ranks_per_host_ = options.ranks_per_host;
    ASSERT_TRUE(within(5 * kSecond, [this] { return connected(); }));
  }
  // Ranks of one host have a path that is up, and others on standby.
  bool connected() {
    if (ranks_per_host_ == 1) return cluster_->all_paths_up();
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      for (int peer = 0; peer < cluster_->size(); ++peer) {
        const Link* link = cluster_->node(rank).engine().link(Rank(peer));
        if (link == nullptr || rank / ranks_per_host_ == peer / ranks_per_host_) continue;
        for (const Path* path : link->paths()) {
          if (!path->spec.relay && path->state.phase() != PathPhase::up) return false;
        }
      }
    }
    return true;
  }
  NicHealth& health(int rank) { return cluster_->node(rank).runtime->job().nic_health(); }
  SimNic& nic(int host, int index) { return cluster_->nic(host * ranks_per_host_, index); }
  void pull(int host, int index) { cluster_->fabric().pull(nic(host, index)); }
  void fix(int host, int index) { cluster_->fabric().fix(nic(host, index)); }
  void kill(int rank) {
    cluster_->world().kill(*cluster_->node(rank).host);
    dead_.insert(rank);
  }
  bool within(TimeNs time, const std::function<bool()>& done) {
    return cluster_->world().run_until(done, cluster_->now() + time);
  }
  // Calls call(rank) for each rank that lives.
  void for_living(const std::function<void(int)>& call) {
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      if (!dead_.contains(rank)) call(rank);
    }
  }

  // Returns the NICs that carry nothing, as the rank knows it. All hosts have the same NICs, so
  // these have the numbers of their rails.
  Places lost(int rank) {
    Places places;
    for (const RailRate& each : health(rank).rates()) {
      if (each.rate.send == 0) places.insert({static_cast<int>(each.host), each.rail});
    }
    return places;
  }
  bool all_know(const Places& wanted) {
    bool all = true;
    for_living([&](int rank) { all = all && lost(rank) == wanted; });
    return all;
  }
  // Returns the time until each living rank holds just these NICs for lost; kNever: more than
  // `bound`.
  TimeNs time_until(const Places& wanted, TimeNs bound) {
    const TimeNs from = cluster_->now();
    return within(bound, [&] { return all_know(wanted); }) ? cluster_->now() - from : kNever;
  }
  // Returns whether the plans of all living ranks use just the NICs that are not in `unused`.
  bool all_plan_without(const Places& unused, int communicator = 0) {
    bool all = true;
    for_living([&](int rank) {
      const RankViews& views = *cluster_->node(rank).communicator(communicator).views();
      all = all && views.agreement().settled() &&
            unused_by(views.agreement().latest().view) == unused;
    });
    return all;
  }
  static Places unused_by(const View& view) {
    Places places;
    for (size_t host = 0; !view.empty() && host < view.hosts().size(); ++host) {
      const HostRates& rates = view.hosts()[host];
      for (size_t rail = 0; rail < rates.size(); ++rail) {
        if (rates[rail].send == 0) places.insert({static_cast<int>(host), static_cast<int>(rail)});
      }
    }
    return places;
  }
  void expect_equal_tables() {
    std::optional<RateTable> first;
    for_living([&](int rank) {
      if (!first) first = health(rank).rates();
      EXPECT_EQ(health(rank).rates(), *first) << "rank " << rank;
    });
  }
  void expect_works(uint64_t elements = 4096, int operations = 5) {
    AllReduceJob job(*cluster_, elements);
    job.start(operations);
    run(*cluster_, job, 60 * kSecond);
  }
  // Returns the verdicts of the rank in words, in ascending order.
  std::vector<std::string> verdicts(int rank) {
    std::vector<std::string> words;
    for (const Verdict& verdict : cluster_->node(rank).fault_reporter().verdicts()) {
      words.push_back(describe(verdict));
    }
    std::ranges::sort(words);
    return words;
  }

  std::optional<Cluster> cluster_;
  std::set<int> dead_;
  int ranks_per_host_ = 1;
};

}  // namespace r2ccl::sim
