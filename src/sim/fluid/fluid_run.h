// One run of the fluid simulator. Private to this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "base/fifo.h"
#include "sim/fluid/fluid.h"
#include "sim/fluid/link_heap.h"
#include "sim/fluid/plan_player.h"

namespace r2ccl::sim {

class FluidRun {
 public:
  FluidRun(const FluidPlan& plan, const HostGroups& hosts, const FluidFabric& fabric,
           const FluidOptions& options, FluidRecorder* recorder);
  Result<FluidTime> run();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // All messages from one rank to another. Its flows exist while it sends.
  struct Link {
    uint32_t from = 0;
    uint32_t to = 0;
    uint32_t send_queue = 0;
    uint32_t receive_queue = 0;
    uint32_t prepared = 0;  // messages that were given to the sender's processor
    uint32_t sendable = 0;  // of these, those that it has done
    uint32_t begun = 0;
    uint32_t first_flow = kNone;
    bool remote = false;
    bool busy = false;    // a message is on its way out
    bool active = false;  // its flows exist
    bool rerated = false;
    double rate = 0;  // bytes a second since `since_s`
    double since_s = 0;
    double sent_then = 0;    // bytes that it had sent at `since_s`, over all messages
    double sent = 0;         // the same at the end of the last message
    double message_end = 0;  // the same at the end of the message on its way
    double held_until_s = 0;
  };
  struct Timed {
    double at_s = 0;
    uint32_t link = 0;
  };
  enum class Event : uint8_t { prepared, arrival };
  using Late = std::tuple<double, uint64_t, Event, uint32_t>;  // time, order, event, link

  void make_links();
  void make_link(uint32_t from, uint32_t send_queue);
  std::vector<RailFlow> traffic() const;
  double next_time() const;
  void run_events(double until_s);
  void apply(const RateChange& change);
  bool uses(const Link& link, const RateChange& change);
  void handle_posted(uint32_t rank);
  void prepare(uint32_t link);
  void begin_messages();
  void begin_next(uint32_t link);
  void end_message(uint32_t link);
  void depart(uint32_t link);
  void arrive(uint32_t link);
  void acknowledge(uint32_t link);
  void note_work(uint32_t rank, uint32_t work_before);
  void refresh_flows();
  void start_flows(uint32_t link);
  void stop_flows(uint32_t link);
  void set_rate(uint32_t link);
  void advance(Link& link);
  void set_end(uint32_t link);
  Status standstill();

  const FluidPlan& plan_;
  const FluidFabric& fabric_;
  const FluidOptions& options_;
  FluidRecorder* const recorder_;
  FluidNetwork network_;
  std::vector<PlanPlayer> players_;
  std::vector<Link> links_;
  std::vector<uint32_t> first_queue_;  // per rank: where its queues begin in link_of_queue_
  std::vector<uint32_t> link_of_queue_;
  LinkHeap sending_{0};
  // By kind of link: within a host, between hosts. All of a kind take equally long, so a queue
  // keeps their order.
  Fifo<Timed> arrivals_[2];
  Fifo<Timed> acknowledgements_[2];
  std::priority_queue<Late, std::vector<Late>, std::greater<>> late_;
  uint64_t late_count_ = 0;
  std::vector<RateChange> changes_;  // by time
  size_t next_change_ = 0;
  std::vector<double> processor_free_s_;  // per rank
  std::vector<uint32_t> next_flow_;       // of the same link, by flow
  std::vector<uint32_t> posted_;
  std::vector<uint32_t> startable_;  // links that may begin a message
  std::vector<uint32_t> switched_;   // links that may have become busy or idle
  std::vector<uint32_t> rerated_;
  double now_s_ = 0;
  uint64_t ranks_left_ = 0;
  FluidTime result_;
};

}  // namespace r2ccl::sim
