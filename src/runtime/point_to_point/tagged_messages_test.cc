#include "runtime/point_to_point/tagged_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/limits.h"
#include "testing/fake_network.h"

namespace r2ccl {
namespace {

constexpr ChannelId kFrames{3};
constexpr ChannelId kPayloads{4};
constexpr size_t kLarge = 2 * limits::kMessageBytesMax / sizeof(int32_t) + 5;

using Result = std::optional<Status>;
using Data = std::vector<int32_t>;

Data numbers(size_t count, int32_t first) {
  Data data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

// A Recv, and its result.
struct Target {
  explicit Target(size_t most) : data(most, -1) {}
  // Returns the elements that were received.
  Data got() const { return {data.begin(), data.begin() + static_cast<std::ptrdiff_t>(count)}; }
  Data data;
  Result result;
  size_t count = 0;
};

// A Job must be the last thing that a test declares: its end completes what is still open.
class Job {
 public:
  Job(int32_t rank_count, uint64_t seed) : network(rank_count, seed) {
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      ends.push_back(std::make_unique<TaggedMessages>(Rank(rank), kFrames, kPayloads,
                                                      network.ports_of(Rank(rank))));
    }
  }
  ~Job() {
    for (const auto& end : ends) end->check_invariants();
  }
  void send(int from, int to, int32_t tag, const Data& data, Result& result) {
    end(from).send(Rank(to), std::as_bytes(std::span(data)), DataType::int32, tag,
                   [&result](const Status& status) {
                     EXPECT_FALSE(result.has_value()) << "done twice";
                     result = status;
                   });
  }
  void receive(int at, int from, int32_t tag, Target& target, DataType type = DataType::int32) {
    end(at).receive(Rank(from), std::as_writable_bytes(std::span(target.data)), type, tag,
                    [&target](const Status& status, uint64_t bytes) {
                      EXPECT_FALSE(target.result.has_value()) << "done twice";
                      target.result = status;
                      target.count = bytes / sizeof(int32_t);
                    });
  }
  TaggedMessages& end(int rank) { return *ends[static_cast<size_t>(rank)]; }

  FakeNetwork network;
  std::vector<std::unique_ptr<TaggedMessages>> ends;
};

bool ok(const Result& result) {
  return result.has_value() && result->ok();
}

TEST(TaggedMessages, MatchInTheOrderOfEachTagAndTellTheSize) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    constexpr size_t kEach = 60;
    constexpr size_t kMost = 20'000;
    std::vector<Data> sent;
    std::vector<Target> targets;
    for (size_t i = 0; i < 2 * kEach; ++i) {
      sent.push_back(numbers(i % 7 == 0 ? 0 : random() % kMost, static_cast<int32_t>(i)));
      targets.emplace_back(kMost);
    }
    std::vector<Result> sends(2 * kEach);
    Job job(3, seed);
    // Message i goes from rank 0 or 2 with tag i / 2 % 3; Recvs of one tag come after the others'.
    std::vector<size_t> receives(2 * kEach);
    std::iota(receives.begin(), receives.end(), 0);
    std::ranges::stable_sort(receives, {}, [&](size_t i) { return (i / 2 + seed) % 3; });
    size_t started = 0;
    for (size_t i = 0; i < 2 * kEach; ++i) {
      job.send(i % 2 == 0 ? 0 : 2, 1, static_cast<int32_t>(i / 2 % 3), sent[i], sends[i]);
      for (uint64_t steps = random() % 8; steps > 0 && job.network.step();) --steps;
      if (seed % 2 == 0) continue;
      const size_t at = receives[started++];
      job.receive(1, at % 2 == 0 ? 0 : 2, static_cast<int32_t>(at / 2 % 3), targets[at]);
    }
    while (started < receives.size()) {
      const size_t at = receives[started++];
      job.receive(1, at % 2 == 0 ? 0 : 2, static_cast<int32_t>(at / 2 % 3), targets[at]);
    }
    job.network.run();
    for (size_t i = 0; i < 2 * kEach; ++i) {
      ASSERT_TRUE(ok(sends[i]) && ok(targets[i].result)) << i;
      ASSERT_EQ(targets[i].got(), sent[i]) << i;
    }
    for (const auto& end : job.ends) {
      EXPECT_TRUE(end->idle());
      EXPECT_TRUE(end->end().ok());
    }
  }
}

TEST(TaggedMessages, LeaveTheRestOfTheBufferAsItWas) {
  for (const size_t count : {size_t{0}, size_t{3}, size_t{20'000}}) {
    const Data sent = numbers(count, 5);
    Result result;
    Target target(count + 2);
    Job job(2, 1);
    job.send(0, 1, 4, sent, result);
    job.receive(1, 0, 4, target);
    job.network.run();
    ASSERT_TRUE(ok(result) && ok(target.result));
    EXPECT_EQ(target.got(), sent);
    EXPECT_EQ(target.data[count], -1);
    EXPECT_EQ(target.data[count + 1], -1);
  }
}

TEST(TaggedMessages, LargerThanAMessageOfTheLinkGoFromBufferToBuffer) {
  const Data sent = numbers(kLarge, 9);
  Result result;
  Target target(kLarge + 100), other(1);
  Job job(2, 2);
  job.receive(1, 0, 1, other);
  job.send(0, 1, 0, sent, result);
  job.network.run();
  EXPECT_FALSE(result.has_value());
  EXPECT_TRUE(job.end(0).lacks_receive(Rank(1), 1));
  job.receive(1, 0, 0, target);
  EXPECT_FALSE(job.end(1).lacks_send(Rank(0), 0, 2));
  EXPECT_TRUE(job.end(1).lacks_send(Rank(0), 1, 1));
  job.network.run();
  EXPECT_TRUE(ok(result) && ok(target.result));
  EXPECT_EQ(target.got(), sent);
}

TEST(TaggedMessages, WithoutARecvHoldUpNoOtherTag) {
  const size_t many = 2 * limits::kTaggedWholeBytes / limits::kTaggedMessageOverhead;
  const Data small = numbers(1, 1), large = numbers(20'000, 2);
  std::vector<Result> first(many);
  Result second, third;
  Target got_second(10), got_third(20'000);
  std::vector<Target> targets(many, Target(20'000));
  Job job(2, 3);
  for (size_t i = 0; i < many; ++i) job.send(0, 1, 1, i % 100 == 0 ? large : small, first[i]);
  job.send(0, 1, 2, small, second);
  job.send(0, 1, 3, large, third);
  job.receive(1, 0, 2, got_second);
  job.receive(1, 0, 3, got_third);
  job.network.run();
  EXPECT_TRUE(ok(second) && ok(third));
  EXPECT_EQ(got_second.got(), small);
  EXPECT_EQ(got_third.got(), large);
  EXPECT_FALSE(first.back().has_value()) << "it has no credit";
  for (size_t i = 0; i < many; ++i) job.receive(1, 0, 1, targets[i]);
  job.network.run();
  for (size_t i = 0; i < many; ++i) {
    ASSERT_TRUE(ok(first[i]) && ok(targets[i].result)) << i;
    ASSERT_EQ(targets[i].got(), i % 100 == 0 ? large : small) << i;
  }
}

TEST(TaggedMessages, AreBoundedWhileNoRecvTakesThem) {
  const Data data = numbers(1000, 1);
  const size_t free = limits::kTaggedWholeBytes / charge_of(4000);
  const size_t many = free + limits::kTaggedAnnouncedMax + 50;
  std::vector<Result> sends(many);
  Target other(1);
  std::vector<Target> targets(many, Target(1000));
  Result again;
  Job job(2, 4);
  job.receive(1, 0, 8, other);
  for (Result& result : sends) job.send(0, 1, 7, data, result);
  job.network.run();
  const auto complete = static_cast<size_t>(std::ranges::count_if(sends, ok));
  EXPECT_EQ(complete, free);
  EXPECT_EQ(job.network.messages(), free + limits::kTaggedAnnouncedMax);
  for (Target& target : targets) job.receive(1, 0, 7, target);
  job.network.run();
  for (size_t i = 0; i < many; ++i) ASSERT_TRUE(ok(sends[i]) && ok(targets[i].result)) << i;
  // The credit is back.
  job.send(0, 1, 7, data, again);
  EXPECT_TRUE(ok(again));
}

TEST(TaggedMessages, ToTheRankItself) {
  const Data data = numbers(3, 1);
  Target other(5), target(5);
  Result sent, last;
  Job job(1, 0);
  job.receive(0, 0, 1, other);
  job.send(0, 0, 2, data, sent);
  EXPECT_FALSE(sent.has_value());
  EXPECT_EQ(job.end(0).unmatched_local(), 2U);
  EXPECT_TRUE(job.end(0).idle_but_local());
  job.receive(0, 0, 2, target);
  EXPECT_TRUE(ok(sent) && ok(target.result));
  EXPECT_EQ(target.got(), data);
  job.send(0, 0, 1, {}, last);
  EXPECT_TRUE(ok(last) && ok(other.result));
  EXPECT_EQ(other.count, 0U);
  EXPECT_TRUE(job.end(0).idle());
}

TEST(TaggedMessages, ThatDoNotFitTheirRecvFailInWords) {
  for (const int receiver : {0, 1}) {  // 0: a message to the rank itself
    for (const size_t count : {size_t{11}, size_t{20'000}}) {
      for (const bool receive_first : {false, true}) {
        for (const bool other_type : {false, true}) {
          const Data data = numbers(count, 1);
          Target target(other_type ? count : 10);
          Result sent;
          Job job(2, 0);
          const auto receive = [&] {
            job.receive(receiver, 0, 7, target, other_type ? DataType::float32 : DataType::int32);
          };
          if (receive_first) receive();
          job.send(0, receiver, 7, data, sent);
          job.network.run();
          if (!receive_first) receive();
          job.network.run();
          ASSERT_TRUE(target.result.has_value());
          EXPECT_EQ(target.result->code(), Code::invalid_usage);
          EXPECT_EQ(target.result->message(),
                    "rank 0 sends " + std::to_string(4 * count) +
                        " bytes of int32 with tag 7 to rank " + std::to_string(receiver) +
                        ", whose Recv takes at most " + std::to_string(4 * target.data.size()) +
                        " bytes of " + (other_type ? "float32" : "int32"));
        }
      }
    }
  }
}

TEST(TaggedMessages, WithoutARecvFailTheEnd) {
  for (const bool early : {false, true}) {
    for (const size_t count : {size_t{2}, size_t{20'000}}) {
      std::string failure;
      const Data data = numbers(count, 1);
      Result sent;
      Target other(1);
      Job job(2, 0);
      job.end(1).set_failure_handler([&](const Status& why) { failure = why.message(); },
                                     [](Rank rank) { return "R" + std::to_string(rank.value()); });
      job.send(0, 1, 7, data, sent);
      if (early) {
        job.receive(1, 0, 8, other);
        job.network.run();
        failure = job.end(1).end().message();
        job.end(1).cancel(Status(Code::aborted, "the test ends"));
      } else {
        EXPECT_TRUE(job.end(1).end().ok());
        job.network.run();
      }
      EXPECT_EQ(failure, "R1 finalizes without a Recv for " + std::to_string(4 * count) +
                             " bytes of int32 with tag 7 from R0");
    }
  }
}

TEST(TaggedMessages, CancelEndsEverything) {
  const Data small = numbers(3, 1), large = numbers(kLarge, 1);
  Target target(3), granted(kLarge);
  Result sent, back, late;
  Job job(2, 0);
  job.send(0, 1, 1, large, sent);
  job.send(1, 0, 3, large, back);
  job.receive(0, 1, 3, granted);
  job.receive(0, 1, 2, target);
  for (int i = 0; i < 4; ++i) job.network.step();
  EXPECT_EQ(job.end(0).waits_on(), std::vector<Rank>{Rank(1)});
  EXPECT_TRUE(job.end(0).lacks_send(Rank(1), 2, 2));
  const Status why(Code::aborted, "the test aborts");
  job.end(0).cancel(why);
  EXPECT_EQ(sent, why);
  EXPECT_EQ(target.result, why);
  EXPECT_EQ(granted.result, why);
  job.send(0, 1, 1, small, late);
  EXPECT_EQ(late, why);
  EXPECT_TRUE(job.end(0).idle());
}

// The calls of one rank to the frames that a peer should never send.
class Liar : public MessageClient {
 public:
  explicit Liar(FakeNetwork& network) : port_(*network.ports_of(Rank(1))[0]) {
    port_.open_channel(kFrames, *this, Rank(0));
    port_.open_channel(kPayloads, *this, Rank(0));
  }
  void say(const TaggedFrame& frame) {
    frames_.push_back(encode(frame));
    port_.post_send(kFrames, frames_.back(), kNoContext);
  }
  void on_sent(Rank, ChannelId, MessageNo) override {}
  void on_received(Rank, ChannelId, MessageNo, uint64_t) override {}
  void on_mismatch(Rank, ChannelId, const Status&) override {}

 private:
  MessagePort& port_;
  std::deque<std::vector<std::byte>> frames_;
};

TEST(TaggedMessages, OfAPeerThatBreaksTheProtocolAreAnError) {
  using Kind = TaggedFrame::Kind;
  const std::vector<std::byte> bytes(kTaggedWholeMax);
  std::vector<TaggedFrame> flood;
  for (uint64_t i = 0; i < limits::kTaggedWholeBytes / kTaggedWholeMax + 1; ++i) {
    flood.push_back({Kind::whole, DataType::int32, 1, i, bytes.size(), 0, bytes});
  }
  const std::vector<std::pair<std::vector<TaggedFrame>, std::string>> lies = {
      {{{Kind::grant, DataType::int32, 0, 0}}, "does not wait for it"},
      {{{Kind::announce, DataType::int32, 1, 3}}, "out of order"},
      {{{.kind = Kind::credit, .taken = 100}}, "no tagged message has taken"},
      {{{.kind = Kind(9)}}, "malformed"},
      {{{Kind::whole, DataType::int32, 1, 0, 40'000}}, "its frame does not hold"},
      {flood, "without credit"}};
  for (const auto& [frames, words] : lies) {
    Target target(1);
    FakeNetwork network(2, 5);
    TaggedMessages end(Rank(0), kFrames, kPayloads, network.ports_of(Rank(0)));
    Liar liar(network);
    end.receive(Rank(1), std::as_writable_bytes(std::span(target.data)), DataType::int32, 5,
                [&](const Status& status, uint64_t) { target.result = status; });
    for (const TaggedFrame& frame : frames) liar.say(frame);
    network.run();
    ASSERT_TRUE(target.result.has_value()) << words;
    EXPECT_EQ(target.result->code(), Code::remote);
    EXPECT_NE(target.result->message().find(words), std::string::npos) << target.result->message();
  }
}

}  // namespace
}  // namespace r2ccl
