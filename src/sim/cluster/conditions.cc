#include "sim/cluster/conditions.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"
#include "sim/fabric/random.h"

namespace r2ccl::sim {
namespace {

constexpr int kFaultyRank = 1;
constexpr int kBrokenNic = 2;
// Two heartbeats, plus the time after which the engine declares a silent path down.
constexpr TimeNs kIdleLinksNotice = 2 * limits::kHeartbeatInterval + 500 * kMillisecond;
constexpr TimeNs kLimit = 600 * kSecond;

double rate_of(const Conditions& c) {
  return static_cast<double>(c.mbit) * 1e6 / 8 / 1e9;
}

// Returns the bytes that one rank sends in one operation.
double payload(const Conditions& c, uint64_t bytes) {
  return 2.0 * static_cast<double>(bytes) * (c.hosts - 1) / c.hosts;
}

uint64_t operation_bytes(const Conditions& c) {
  if (c.bytes != 0) return c.bytes;
  constexpr double kTime = 30e6;
  const double wanted = kTime * rate_of(c) * c.nics;
  return std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 64 * 1024, 1024 * 1024) / 64 * 64;
}

// Returns options whose sockets keep two round trips of bytes in flight, as sockets of a kernel
// that sizes its buffers by itself do.
ClusterOptions cluster_options(const Conditions& c) {
  ClusterOptions options;
  options.seed = c.seed;
  options.hosts = c.hosts;
  options.nics = c.nics;
  options.rate_bytes_per_s = c.mbit * 1'000'000 / 8;
  NetworkOptions& network = options.world.network;
  network.latency_ns = c.round_trip / 2;
  const double of_a_round_trip = rate_of(c) * static_cast<double>(c.round_trip);
  StreamLimits& stream = network.stream;
  stream.in_flight_bytes = std::clamp<uint64_t>(static_cast<uint64_t>(2 * of_a_round_trip),
                                                stream.in_flight_bytes, 2 * 1024 * 1024);
  stream.send_buffer_bytes = 2 * stream.in_flight_bytes;
  stream.receive_buffer_bytes = 2 * stream.in_flight_bytes;
  const auto half_a_ms = static_cast<uint64_t>(rate_of(c) * 5e5);
  stream.segment_bytes = std::clamp<uint64_t>(half_a_ms, 1448, stream.segment_bytes);
  return options;
}

void begin(Fabric& fabric, SimNic& nic, Trouble trouble) {
  switch (trouble) {
    case Trouble::none:
      return;
    case Trouble::pull:
      return fabric.pull(nic);
    case Trouble::hole:
      return fabric.hole(nic);
    case Trouble::hole_tx:
      return fabric.hole_tx(nic);
    case Trouble::hole_rx:
      return fabric.hole_rx(nic);
  }
}

TimeNs median(std::vector<TimeNs> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Run {
 public:
  explicit Run(const Conditions& conditions)
      : c_(conditions), cluster_(cluster_options(conditions)), random_(conditions.seed) {}

  Outcome run() {
    out_.bytes = operation_bytes(c_);
    const double line = rate_of(c_) * c_.nics;
    out_.wire_time = static_cast<TimeNs>(payload(c_, out_.bytes) / line);
    out_.chunk_time = static_cast<TimeNs>(limits::kChunkBytesMin / rate_of(c_));
    constexpr TimeNs kTurns = 100 * kMicrosecond;
    out_.latency_time = 2 * (c_.hosts - 1) * (c_.round_trip / 2 + out_.chunk_time + kTurns);
    out_.connected = cluster_.connect();
    if (!out_.connected) return out_;
    if (c_.busy) {
      for (int rank = 0; rank < c_.hosts; ++rank) preempt(rank);
    }
    if (!run_job(warm_up(), job_a_)) return out_;
    const uint64_t suspicions = suspicions_now();
    const uint64_t hedged = hedged_now();
    const uint64_t sent = sent_now();
    for (int rank = 0; rank < c_.hosts; ++rank) note_unexpected(rank, 0);
    if (!run_job(measured(), job_b_)) return out_;
    const double all = payload(c_, out_.bytes) * measured() * c_.hosts;
    out_.suspicions = suspicions_now() - suspicions;
    out_.hedged_share = static_cast<double>(hedged_now() - hedged) / all;
    out_.sent_share = static_cast<double>(sent_now() - sent) / all;
    std::vector<TimeNs> times;
    for (const auto& operation : job_b_->operations()) {
      times.push_back(operation.ended - operation.began);
    }
    out_.median = median(times);
    out_.longest_before = *std::ranges::max_element(times);
    if (c_.trouble == Trouble::none) {
      for (int rank = 0; rank < c_.hosts; ++rank) note_unexpected(rank, 0);
      out_.finished = true;
    } else {
      break_it();
    }
    return out_;
  }

 private:
  int measured() const { return c_.operations != 0 ? c_.operations : 8; }
  int warm_up() const { return std::max(measured() / 2, 5); }

  void preempt(int rank) {
    cluster_.fabric().at(
        cluster_.now() + static_cast<TimeNs>(random_.below(20'000)) * kMicrosecond, [this, rank] {
          cluster_.world().deschedule(cluster_.node(rank).actor,
                                      static_cast<TimeNs>(random_.below(8'000)) * kMicrosecond);
          preempt(rank);
        });
  }

  bool run_job(int operations, std::unique_ptr<AllReduceJob>& job) {
    job = std::make_unique<AllReduceJob>(cluster_, out_.bytes / sizeof(int64_t));
    job->start(operations);
    const bool done =
        cluster_.world().run_until([&] { return job->finished(); }, cluster_.now() + kLimit);
    take(*job);
    return done;
  }
  void take(const AllReduceJob& job) {
    out_.wrong += job.wrong();
    out_.checked += job.checked();
    if (out_.error.empty()) out_.error = job.error();
  }

  template <typename Each>
  void for_each_link(const Each& each) {
    for (int rank = 0; rank < c_.hosts; ++rank) {
      for (int peer = 0; peer < c_.hosts; ++peer) {
        const Link* link = cluster_.node(rank).engine().link(Rank(peer));
        if (link != nullptr) each(rank, *link);
      }
    }
  }
  uint64_t suspicions_now() {
    uint64_t sum = 0;
    for_each_link([&](int, const Link& link) {
      for (const auto& path : link.paths()) sum += path->history.suspicions;
    });
    return sum;
  }
  uint64_t hedged_now() {
    uint64_t sum = 0;
    for_each_link([&](int, const Link& link) { sum += link.hedged_bytes(); });
    return sum;
  }
  uint64_t sent_now() {
    uint64_t sum = 0;
    for (int rank = 0; rank < c_.hosts; ++rank) {
      for (int k = 0; k < c_.nics; ++k) sum += cluster_.nic(rank, k).bytes_sent;
    }
    return sum;
  }

  static bool touches(int rank, const PathEvent& event) {
    const NicId broken(kBrokenNic);
    return (rank == kFaultyRank && event.local_nic == broken) ||
           (event.peer == Rank(kFaultyRank) && event.remote_nic == broken);
  }
  static std::string describe(int rank, const PathEvent& event) {
    return "rank " + std::to_string(rank) + " to " + std::to_string(event.peer.value()) + " nic" +
           std::to_string(event.local_nic.value()) + ": " + event.why;
  }
  // Counts the paths that went down or became suspect, separately for the broken NIC and for all
  // others. Then clears the rank's events.
  void note_unexpected(int rank, TimeNs troubled_at) {
    for (const PathEvent& event : cluster_.node(rank).events) {
      const bool was_up = event.from == PathPhase::up || event.from == PathPhase::suspect;
      if (event.to == PathPhase::suspect && !(troubled_at != 0 && touches(rank, event))) {
        out_.suspicions_elsewhere += troubled_at != 0 ? 1 : 0;
      }
      if (event.to != PathPhase::down || !was_up) continue;
      if (troubled_at != 0 && touches(rank, event)) {
        ++out_.downs;
        const TimeNs after = event.at - troubled_at;
        out_.first_down = out_.downs == 1 ? after : std::min(out_.first_down, after);
        out_.last_down = std::max(out_.last_down, after);
      } else {
        ++out_.downs_elsewhere;
        out_.why.push_back(describe(rank, event));
      }
    }
    cluster_.node(rank).events.clear();
  }

  // Returns whether both ends of each path of the broken NIC are down.
  bool all_ends_down() {
    for (int rank = 0; rank < c_.hosts; ++rank) {
      for (int peer = 0; peer < c_.hosts; ++peer) {
        const Link* link = cluster_.node(rank).engine().link(Rank(peer));
        if (link == nullptr || (rank != kFaultyRank && peer != kFaultyRank)) continue;
        for (const auto& path : link->paths()) {
          const NicId nic = rank == kFaultyRank ? path->spec.local_nic : path->spec.remote_nic;
          if (nic == NicId(kBrokenNic) && path->state.connected()) return false;
        }
      }
    }
    return true;
  }

  // Breaks the NIC in the middle of an operation, and measures the job after that.
  void break_it() {
    const TimeNs after_trouble = 400 * kMillisecond + 16 * c_.round_trip + 60 * out_.chunk_time;
    for (int rank = 0; rank < c_.hosts; ++rank) note_unexpected(rank, 0);
    const TimeNs at = cluster_.now() + 2 * out_.median + out_.median / 3;
    cluster_.fabric().at(at, [this] {
      begin(cluster_.fabric(), cluster_.nic(kFaultyRank, kBrokenNic), c_.trouble);
    });
    const int wanted =
        std::max(measured(), static_cast<int>(after_trouble / std::max<TimeNs>(out_.median, 1)));
    out_.finished = run_job(wanted, job_c_);
    // A link that the operations do not use notices the trouble later.
    cluster_.world().run_until([this] { return all_ends_down(); }, at + kIdleLinksNotice);
    out_.downs_wanted = 2 * static_cast<size_t>(c_.hosts - 1);
    for (int rank = 0; rank < c_.hosts; ++rank) note_unexpected(rank, at);
    std::vector<TimeNs> after;
    for (const auto& operation : job_c_->operations()) {
      const TimeNs took = operation.ended - operation.began;
      if (operation.began > at + out_.last_down) {
        after.push_back(took);
      } else {
        out_.hit = std::max(out_.hit, took);
      }
    }
    out_.median_after = median(std::move(after));
  }

  const Conditions c_;
  Cluster cluster_;
  Random random_;
  std::unique_ptr<AllReduceJob> job_a_;
  std::unique_ptr<AllReduceJob> job_b_;
  std::unique_ptr<AllReduceJob> job_c_;
  Outcome out_;
};

}  // namespace

Outcome measure(const Conditions& conditions) {
  return Run(conditions).run();
}

std::string to_string(const Conditions& c) {
  static constexpr const char* kTroubles[] = {"none", "pull", "hole", "hole_tx", "hole_rx"};
  char text[128];
  std::snprintf(text, sizeof(text), "%llu Mbit/s, round trip %.2f ms, %d hosts x %d NICs%s%s%s",
                static_cast<unsigned long long>(c.mbit), to_ms(c.round_trip), c.hosts, c.nics,
                c.busy ? ", busy" : "", c.trouble == Trouble::none ? "" : ", ",
                c.trouble == Trouble::none ? "" : kTroubles[static_cast<size_t>(c.trouble)]);
  return text;
}

std::string to_string(const Outcome& o) {
  char text[512];
  std::snprintf(text, sizeof(text),
                "%s, wrong %llu; median %.2f ms (line %.2f), longest %.2f, sent %.3f, mirrored "
                "%.3f %%, suspicions %llu; after: hit %.1f ms, median %.2f, downs %zu of %zu + %zu "
                "elsewhere, in %.1f to %.1f ms, suspicions elsewhere %llu",
                o.finished    ? "finished"
                : o.connected ? "stuck"
                              : "not connected",
                static_cast<unsigned long long>(o.wrong), to_ms(o.median), to_ms(o.wire_time),
                to_ms(o.longest_before), o.sent_share, 100 * o.hedged_share,
                static_cast<unsigned long long>(o.suspicions), to_ms(o.hit), to_ms(o.median_after),
                o.downs, o.downs_wanted, o.downs_elsewhere, to_ms(o.first_down), to_ms(o.last_down),
                static_cast<unsigned long long>(o.suspicions_elsewhere));
  std::string all = text + (o.error.empty() ? "" : "; " + o.error);
  for (const std::string& why : o.why) all += "\n  " + why;
  return all;
}

}  // namespace r2ccl::sim
