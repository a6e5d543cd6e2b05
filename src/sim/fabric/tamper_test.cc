// Flips single bits on the wire, at every place, and adds bytes. The job goes on with the right
// values, the connection is given up at once, and no verdict names a NIC for it: an accident has no
// verdict, and an attack one on the pair.
#include "sim/fabric/tamper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/all_reduce_job.h"
#include "sim/cluster/cluster.h"

namespace r2ccl::sim {
namespace {

constexpr TimeNs kNoticed = 1 * kSecond;
constexpr TimeNs kBack = 5 * kSecond;

// A job that runs for as long as the test wants.
class Victim {
 public:
  explicit Victim(bool checked = true) : cluster_(options(checked)) {}

  void start() {
    ASSERT_TRUE(cluster_.connect());
    for (int rank = 0; rank < cluster_.size(); ++rank) cluster_.node(rank).events.clear();
    begin_operations();
  }
  Cluster& cluster() { return cluster_; }
  TimeNs now() { return cluster_.now(); }

  // Tampers with the next fitting frame of any connection; `opened`: also of connections that are
  // opened from now on.
  void order(const Tamper& tamper, bool opened) {
    for (const FlowInfo& flow : cluster_.fabric().flows()) {
      for (const int side : {0, 1}) cluster_.fabric().tamper(flow.id, side, tamper);
    }
    if (opened) {
      cluster_.fabric().on_open([this, tamper](uint64_t flow) {
        for (const int side : {0, 1}) cluster_.fabric().tamper(flow, side, tamper);
      });
    }
  }
  void order_on_rail(const Tamper& tamper, int nic) {
    for (const FlowInfo& flow : cluster_.fabric().flows()) {
      if (flow.from != &cluster_.nic(0, nic) && flow.from != &cluster_.nic(1, nic)) continue;
      for (const int side : {0, 1}) cluster_.fabric().tamper(flow.id, side, tamper);
    }
  }
  void reset_one() {
    const auto flows = cluster_.fabric().flows();
    const auto one = std::ranges::find_if(flows, &FlowInfo::established);
    ASSERT_NE(one, flows.end());
    cluster_.fabric().reset_flow(one->id);
  }
  bool run_until(const std::function<bool()>& holds, TimeNs limit) {
    const TimeNs until = now() + limit;
    while (!holds()) {
      if (now() >= until) return false;
      cluster_.world().run_for(kMillisecond);
    }
    return true;
  }
  // Returns the number of path ends that went down since, by cause.
  size_t downs(DownCause cause) {
    size_t count = 0;
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      count += static_cast<size_t>(
          std::ranges::count_if(cluster_.node(rank).events, [cause](const PathEvent& event) {
            return event.to == PathPhase::down && event.cause == cause;
          }));
    }
    return count;
  }
  void forget() {
    for (int rank = 0; rank < cluster_.size(); ++rank) cluster_.node(rank).events.clear();
  }
  void expect_sound() {
    ASSERT_EQ(cluster_.check().violations(), std::vector<std::string>());
    ASSERT_EQ(job_->wrong(), 0u);
    ASSERT_EQ(job_->error(), "");
    ASSERT_FALSE(job_->finished());
    ASSERT_EQ(cluster_.fabric().unnoticed(), 0u);
  }
  // Returns the verdicts `tampered`, which all ranks hold; expects no other one.
  std::vector<Verdict> tamperings() {
    cluster_.world().run_for(5 * kSecond);
    std::vector<Verdict> tamperings;
    for (int rank = 0; rank < cluster_.size(); ++rank) {
      const std::vector<Verdict>& verdicts = cluster_.node(rank).fault_reporter().verdicts();
      EXPECT_EQ(verdicts, cluster_.node(0).fault_reporter().verdicts());
      tamperings.clear();
      for (const Verdict& verdict : verdicts) {
        if (verdict.kind == DownCause::tampered && verdict.scope == Scope::pair) {
          tamperings.push_back(verdict);
          continue;
        }
        ADD_FAILURE() << to_string(verdict.scope) << " " << verdict.faulty.nic << " of host "
                      << verdict.faulty.host << ": " << to_string(verdict.kind);
      }
      EXPECT_TRUE(cluster_.node(rank).ends.empty());
    }
    return tamperings;
  }
  void expect_nobody_named() { EXPECT_EQ(tamperings().size(), 0u); }

 private:
  static ClusterOptions options(bool checked) {
    ClusterOptions options;
    options.rate_bytes_per_s = 4'000'000;
    options.management = false;
    options.link.damping = false;
    options.checked = checked;
    return options;
  }
  void begin_operations() {
    job_ = std::make_unique<AllReduceJob>(cluster_, 2000);
    job_->start(300'000);  // more elements than it reaches
  }

  Cluster cluster_;
  std::unique_ptr<AllReduceJob> job_;
};

// Flips one bit after another, each in a frame of its own.
void sweep(const Tamper& like, uint64_t bits, bool opened, uint64_t step = 1) {
  Victim victim;
  victim.start();
  for (uint64_t bit = 0; bit < bits; bit += step) {
    Tamper tamper = like;
    tamper.bit = bit;
    tamper.done = std::make_shared<bool>(false);
    victim.forget();
    victim.order(tamper, opened);
    if (opened) victim.reset_one();
    ASSERT_TRUE(victim.run_until([&] { return *tamper.done; }, kBack)) << "bit " << bit;
    if (!opened) {
      ASSERT_TRUE(
          victim.run_until([&] { return victim.downs(DownCause::corrupted) > 0; }, kNoticed))
          << "bit " << bit;
    }
    ASSERT_TRUE(victim.run_until([&] { return victim.cluster().all_paths_up(); }, kBack))
        << "bit " << bit;
    victim.expect_sound();
    ASSERT_FALSE(testing::Test::HasFailure()) << "bit " << bit;
  }
  victim.cluster().fabric().on_open([](uint64_t) {});
  // It goes on for minutes without a pause of one: a verdict for each rail, or one for the hosts.
  if (!opened) {
    const size_t named = victim.tamperings().size();
    EXPECT_TRUE(named == 1 || named == 2) << named;
  }
}

// Changes a frame of that rail, and waits until its path has returned.
void flip_on_rail(Victim& victim, int nic) {
  Tamper tamper{.bit = 500, .control = false};
  victim.forget();
  victim.order_on_rail(tamper, nic);
  ASSERT_TRUE(victim.run_until([&] { return *tamper.done; }, kBack));
  ASSERT_TRUE(victim.run_until([&] { return victim.downs(DownCause::corrupted) > 0; }, kNoticed));
  ASSERT_TRUE(victim.run_until([&] { return victim.cluster().all_paths_up(); }, kBack));
  victim.expect_sound();
}

// Two changed frames are accidents. The third one within a minute is an attack.
TEST(Tampering, ThatIsRepeatedIsNamedOnceWithThePairAndStaysInUse) {
  Victim victim;
  victim.start();
  for (int i = 0; i < 2; ++i) ASSERT_NO_FATAL_FAILURE(flip_on_rail(victim, 1));
  victim.expect_nobody_named();
  for (int i = 0; i < 8; ++i) ASSERT_NO_FATAL_FAILURE(flip_on_rail(victim, 1));
  const auto named = victim.tamperings();
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].faulty.nic, "nic1");
  EXPECT_EQ(named[0].other.nic, "nic1");
  EXPECT_NE(named[0].faulty.host, named[0].other.host);
  EXPECT_TRUE(victim.cluster().all_paths_up());
}

TEST(Tampering, OnSeveralRailsNamesTheHosts) {
  Victim victim;
  victim.start();
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(flip_on_rail(victim, i % 2));
  const auto named = victim.tamperings();
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].faulty.nic + named[0].other.nic, "");
}

TEST(Tampering, WithAnyBitOfADataHeaderIsNoticed) {
  sweep({.control = false}, 8 * kDataHeaderBytes, false);
}

TEST(Tampering, WithAnyBitOfAControlFrameIsNoticed) {
  constexpr uint64_t kPaths = 2;
  constexpr uint64_t kBytes = kControlHeaderBytes + kControlFixedBytes + kPaths * kPathReportBytes +
                              kChannelReportBytes + kMacBytes;
  sweep({.data = false}, 8 * kBytes, false);
}

// The first frames of a connection, which validate its path.
TEST(Tampering, WithTheFirstFrameOfAConnectionOnlyDelaysItsPath) {
  sweep({.control = false}, 8 * kDataHeaderBytes, true, 7);
  sweep({.data = false}, 8 * kControlHeaderBytes, true, 7);
}

TEST(Tampering, WithAHandshakeOnlyDelaysItsPath) {
  sweep({.kind = Tamper::Kind::flip_at}, 8 * 128, true, 11);
}

TEST(Tampering, FramesThatComeTwiceAreNoticed) {
  for (const bool data : {true, false}) {
    sweep({.kind = Tamper::Kind::repeat, .data = data, .control = !data}, 10, false);
  }
}

// Bytes that no tag covers, fewer than a header, on one connection after another, and then silence:
// nobody can tell what they are, and they count for nothing.
TEST(Tampering, BytesBehindAFrameCostOnlyTheirConnection) {
  Victim victim;
  victim.start();
  for (int i = 0; i < 40; ++i) {
    Tamper tamper{.kind = Tamper::Kind::add, .control = i % 4 == 3};
    tamper.data = !tamper.control;
    tamper.bit = static_cast<uint64_t>(50 + 7 * i);
    victim.forget();
    victim.order(tamper, false);
    ASSERT_TRUE(victim.run_until([&] { return *tamper.done; }, kBack)) << i;
    ASSERT_TRUE(victim.run_until([&] { return !victim.cluster().all_paths_up(); }, kBack)) << i;
    ASSERT_TRUE(victim.run_until([&] { return victim.cluster().all_paths_up(); }, kBack)) << i;
    ASSERT_EQ(victim.downs(DownCause::protocol), 0u) << i;
    victim.expect_sound();
    ASSERT_FALSE(testing::Test::HasFailure()) << i;
  }
}

// The tag is valid, so the sender's memory is at fault. Finds the tag among those of all paths.
std::function<bool(std::span<std::byte, kDataHeaderBytes>)> rewrite(
    Cluster& cluster, const std::function<bool(DataHeader&)>& change) {
  return [&cluster, change](std::span<std::byte, kDataHeaderBytes> bytes) {
    for (int rank = 0; rank < cluster.size(); ++rank) {
      const Link* link = cluster.node(rank).engine().link(Rank(1 - rank));
      for (const auto& path : link->paths()) {
        const HeaderTag* tag = path->sent_tag();
        if (tag == nullptr || !tag->fits(bytes)) continue;
        DataHeader header = decode_data_header(bytes).value().header;
        if (header.type != FrameType::chunk || !change(header)) return false;
        encode(header, bytes);
        tag->seal(bytes);
        return true;
      }
    }
    return false;
  };
}

TEST(Tampering, AChunkThatIsLostAtThePeerIsSentAgain) {
  Victim victim;
  victim.start();
  for (int i = 0; i < 50; ++i) {
    Tamper tamper{.kind = Tamper::Kind::rewrite, .control = false};
    tamper.rewrite = rewrite(victim.cluster(), [](DataHeader& header) {
      header.type = FrameType::probe;
      return true;
    });
    victim.forget();
    victim.order(tamper, false);
    ASSERT_TRUE(victim.run_until([&] { return *tamper.done; }, kBack));
    ASSERT_TRUE(victim.run_until([&] { return victim.downs(DownCause::protocol) > 0; }, kNoticed));
    ASSERT_TRUE(victim.run_until([&] { return victim.cluster().all_paths_up(); }, kBack));
    victim.expect_sound();
  }
  victim.expect_nobody_named();
}

bool contradicted(Cluster& cluster) {
  const auto said = [&cluster](int rank) {
    const std::string& why = cluster.node(rank).runtime->failure().message();
    return why.find(" contradicts ") != std::string::npos;
  };
  return said(0) || said(1);
}

// Every copy of one chunk is lost; or one chunk is filed under the next message, and the peer then
// acknowledges that number in every frame. No path repairs either.
TEST(Tampering, AContradictionThatARankRepeatsEndsTheJobInWords) {
  for (const bool lost : {true, false}) {
    Victim victim(false);  // the checker believes the ranks' statements
    victim.start();
    std::optional<DataHeader> chosen;
    const auto change = [&](DataHeader& header) {
      if (!chosen) chosen = header;
      const bool same = header.channel == chosen->channel && header.message == chosen->message &&
                        header.offset == chosen->offset && header.context == chosen->context;
      if (!same) return false;
      if (lost) {
        header.type = FrameType::probe;
      } else {
        header.message = MessageNo(header.message.value() + 1);
      }
      return true;
    };
    const TimeNs began = victim.now();
    while (!contradicted(victim.cluster()) && victim.now() - began < 5 * kSecond) {
      Tamper tamper{.kind = Tamper::Kind::rewrite, .control = false};
      tamper.rewrite = rewrite(victim.cluster(), change);
      victim.order(tamper, true);
      victim.run_until([&] { return *tamper.done || contradicted(victim.cluster()); },
                       kMillisecond);
      if (contradicted(victim.cluster())) *tamper.done = true;  // the job's end stays untouched
    }
    EXPECT_TRUE(contradicted(victim.cluster()));
    victim.expect_nobody_named();
  }
}

}  // namespace
}  // namespace r2ccl::sim
