// Weighted max-min fair rates of flows over resources of given capacity (Bertsekas and Gallager,
// Data Networks, 6.5.2). Each resource has a level, the most that a flow of weight 1 may have
// there; a flow's rate is its weight times the least level of its resources. The levels are the
// fixed point of
//
//     sum over the flows of a resource of
//         weight * min(its level, the levels of the flow's other resources)
//         = capacity,       or no level where the sum stays below
//
// It is unique, and updates in any order reach it (Charny, Clark, Jain, ICC 1995: the resource with
// the least level is right after two updates of its own, then the next one). So a change of one
// flow costs only the resources whose level it changes, and not the whole network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace r2ccl::sim {

class MaxMin {
 public:
  using Resource = uint32_t;
  using Flow = uint32_t;
  static constexpr size_t kResourcesOfFlowMax = 4;

  Resource add_resource(double capacity);
  void set_capacity(Resource resource, double capacity);
  double capacity(Resource resource) const { return resources_[resource].capacity; }

  // Adds a flow without an end. Its resources differ. `owner` is for the caller.
  Flow add_flow(std::span<const Resource> resources, uint32_t owner, double weight = 1);
  void remove_flow(Flow flow);
  size_t flows() const { return flows_.size() - free_.size(); }

  // Calls changed(owner, difference of the rate) for each flow whose rate is another one now.
  template <typename F>
  void settle(F changed) {
    find_levels();
    for (const Flow flow : touched_) {
      FlowState& state = flows_[flow];
      state.touched = false;
      if (state.count == 0) continue;  // removed
      const double rate = rate_by_levels(state);
      if (is_same(rate, state.rate)) continue;
      const double difference = rate - state.rate;
      state.rate = rate;
      changed(state.owner, difference);
    }
    touched_.clear();
  }
  // Returns the rate as of the last settle().
  double rate(Flow flow) const { return flows_[flow].rate; }

 private:
  static constexpr Resource kSeveral = UINT32_MAX;

  struct FlowState {
    std::array<Resource, kResourcesOfFlowMax> resources{};
    std::array<uint32_t, kResourcesOfFlowMax> places{};  // in the lists of the resources
    double weight = 1;
    double rate = 0;
    uint32_t owner = 0;
    uint8_t count = 0;
    bool touched = false;
  };
  // An entry of a resource's list: the flow, and which of its resources this is.
  struct Member {
    Flow flow = 0;
    uint32_t index = 0;
    Resource other = kSeveral;  // the only other resource of the flow
    double weight = 1;          // of the flow
  };
  struct ResourceState {
    double capacity = 0;
    bool dirty = false;
    std::vector<Member> members{};
  };

  static bool is_same(double a, double b);
  void touch(Flow flow);
  void mark(Resource resource);
  void find_levels();
  double level_of(const ResourceState& resource);
  double cap_of(const Member& member) const;
  void spread(const ResourceState& resource, double before, double after);
  void spread_to(Resource other, double before, double after);
  double rate_by_levels(const FlowState& flow) const;

  std::vector<ResourceState> resources_;
  std::vector<double> levels_;  // by resource
  std::vector<FlowState> flows_;
  std::vector<Flow> free_;
  std::vector<Flow> touched_;
  std::vector<Resource> dirty_;
  struct Cap {
    double level = 0;
    double weight = 0;
  };
  std::vector<Cap> caps_;
};

}  // namespace r2ccl::sim
