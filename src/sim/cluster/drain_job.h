// For tests: an AllReduce job on a cluster whose NICs are taken out of service, and the view that
// each rank has of these drains.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/finished_job.h"

namespace r2ccl::sim {

inline constexpr uint64_t kDrainElements = 128 * 1024;  // 1 MB

class DrainJob : public testing::Test {
 protected:
  void start(int hosts, int nics, uint64_t elements = kDrainElements) {
    ClusterOptions options;
    options.hosts = hosts;
    options.nics = nics;
    options.views = views_;
    job_.reset();  // the job goes before its cluster
    cluster_ = std::make_unique<Cluster>(options);
    ASSERT_TRUE(cluster_->connect());
    job_ = std::make_unique<AllReduceJob>(*cluster_, elements);
    forget_events();
  }
  void at(TimeNs after, std::function<void()> action) {
    cluster_->fabric().at(began_ + after, std::move(action));
  }
  void begin(int operations) {
    began_ = cluster_->now();
    job_->start(operations);
  }
  void finish() { run(*cluster_, *job_, 60 * kSecond); }
  void set_drained(int rank, int nic, bool drained) {
    cluster_->node(rank).engine().set_drained(NicId(static_cast<uint16_t>(nic)), drained);
    cluster_->wake_all();
  }
  DrainTally tally(int rank, int owner, int nic) {
    return cluster_->node(rank).engine().tally_drain(Rank(owner), "nic" + std::to_string(nic));
  }
  bool out_of_service(int owner, int nic) {
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      if (!tally(rank, owner, nic).out_of_service()) return false;
    }
    return true;
  }
  // Drains the NIC, and returns the time until every rank reports it out of service.
  TimeNs drain_and_wait(int owner, int nic) {
    const TimeNs from = cluster_->now();
    set_drained(owner, nic, true);
    EXPECT_TRUE(cluster_->world().run_until([&] { return out_of_service(owner, nic); },
                                            from + 5 * kSecond));
    return cluster_->now() - from;
  }
  void run_for(TimeNs duration) { cluster_->world().run_for(duration); }

  // Returns the longest duration of the operations that began in [from, to), counted from the
  // beginning of the job.
  TimeNs longest(TimeNs from, TimeNs to) const {
    TimeNs longest = 0;
    for (const auto& each : job_->operations()) {
      if (each.began < began_ + from || each.began >= began_ + to || each.ended == 0) continue;
      longest = std::max(longest, each.ended - each.began);
    }
    return longest;
  }
  TimeNs median(TimeNs from, TimeNs to) const {
    std::vector<TimeNs> times;
    for (const auto& each : job_->operations()) {
      if (each.began < began_ + from || each.began >= began_ + to || each.ended == 0) continue;
      times.push_back(each.ended - each.began);
    }
    if (times.empty()) return 0;
    std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
  }
  TimeNs elapsed() const { return cluster_->now() - began_; }

  void forget_events() {
    for (int rank = 0; rank < cluster_->size(); ++rank) cluster_->node(rank).events.clear();
  }
  // Expects that every path event of every rank is one that `expected` accepts.
  template <typename Predicate>
  void expect_events(Predicate expected) {
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      for (const PathEvent& event : cluster_->node(rank).events) {
        EXPECT_TRUE(expected(event))
            << rank << " to " << event.peer.value() << ' ' << to_string(event.from) << " -> "
            << to_string(event.to) << ' ' << event.why;
      }
    }
  }
  void expect_no_events() {
    expect_events([](const PathEvent&) { return false; });
  }
  uint64_t retransmitted() {
    uint64_t bytes = 0;
    for_each_link([&](Link& link) { bytes += link.retransmitted_bytes(); });
    return bytes;
  }
  template <typename Visit>
  void for_each_link(Visit visit) {
    for (int rank = 0; rank < cluster_->size(); ++rank) {
      for (int peer = 0; peer < cluster_->size(); ++peer) {
        Link* link = cluster_->node(rank).engine().link(Rank(peer));
        if (link != nullptr) visit(*link);
      }
    }
  }
  // Returns the bytes that the host has sent and received through its NIC.
  uint64_t bytes_through(int owner, int nic) {
    uint64_t bytes = 0;
    for (int peer = 0; peer < cluster_->size(); ++peer) {
      const Link* link = cluster_->node(owner).engine().link(Rank(peer));
      if (link == nullptr) continue;
      for (const auto& path : link->paths()) {
        if (path->spec.control_only || path->spec.local_nic.value() != nic) continue;
        bytes += path->total_bytes_sent() + path->total_bytes_received();
      }
    }
    return bytes;
  }

  // Returns the control frames that the host has received through its NIC.
  uint64_t control_frames(int owner, int nic) {
    uint64_t frames = 0;
    for (int peer = 0; peer < cluster_->size(); ++peer) {
      const Link* link = cluster_->node(owner).engine().link(Rank(peer));
      if (link == nullptr) continue;
      for (const auto& path : link->paths()) {
        if (!path->spec.control_only && path->spec.local_nic.value() == nic) {
          frames += path->control_received();
        }
      }
    }
    return frames;
  }

  bool views_ = true;  // start() makes a cluster with views
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<AllReduceJob> job_;
  TimeNs began_ = 0;
};

}  // namespace r2ccl::sim
