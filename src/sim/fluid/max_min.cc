#include "sim/fluid/max_min.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace r2ccl::sim {
namespace {

constexpr double kNoLevel = std::numeric_limits<double>::infinity();
// Levels that differ by less are equal: rounding must not keep the updates going.
constexpr double kTolerance = 1e-12;

}  // namespace

bool MaxMin::is_same(double a, double b) {
  if (a == b) return true;
  return a != kNoLevel && b != kNoLevel && std::abs(a - b) <= kTolerance * std::max(a, b);
}

MaxMin::Resource MaxMin::add_resource(double capacity) {
  R2CCL_CHECK(capacity >= 0);
  resources_.push_back({.capacity = capacity});
  levels_.push_back(kNoLevel);
  return static_cast<Resource>(resources_.size() - 1);
}

void MaxMin::set_capacity(Resource resource, double capacity) {
  R2CCL_CHECK(capacity >= 0);
  resources_[resource].capacity = capacity;
  mark(resource);
}

MaxMin::Flow MaxMin::add_flow(std::span<const Resource> resources, uint32_t owner, double weight) {
  R2CCL_CHECK(!resources.empty() && resources.size() <= kResourcesOfFlowMax && weight > 0);
  if (free_.empty()) {
    free_.push_back(static_cast<Flow>(flows_.size()));
    flows_.emplace_back();
  }
  const Flow flow = free_.back();
  free_.pop_back();
  FlowState& state = flows_[flow];
  state.weight = weight;
  state.rate = 0;
  state.owner = owner;
  state.count = static_cast<uint8_t>(resources.size());
  for (uint32_t i = 0; i < state.count; ++i) {
    ResourceState& resource = resources_[resources[i]];
    state.resources[i] = resources[i];
    state.places[i] = static_cast<uint32_t>(resource.members.size());
    resource.members.push_back({.flow = flow,
                                .index = i,
                                .other = state.count == 2 ? resources[1 - i] : kSeveral,
                                .weight = weight});
    mark(resources[i]);
  }
  touch(flow);
  return flow;
}

void MaxMin::remove_flow(Flow flow) {
  FlowState& state = flows_[flow];
  R2CCL_CHECK(state.count > 0);
  for (uint32_t i = 0; i < state.count; ++i) {
    ResourceState& resource = resources_[state.resources[i]];
    const Member last = resource.members.back();
    resource.members[state.places[i]] = last;
    flows_[last.flow].places[last.index] = state.places[i];
    resource.members.pop_back();
    mark(state.resources[i]);
  }
  state.count = 0;
  free_.push_back(flow);
}

void MaxMin::touch(Flow flow) {
  if (flows_[flow].touched) return;
  flows_[flow].touched = true;
  touched_.push_back(flow);
}

void MaxMin::mark(Resource resource) {
  if (resources_[resource].dirty) return;
  resources_[resource].dirty = true;
  dirty_.push_back(resource);
}

void MaxMin::find_levels() {
  // Every second pass over all resources makes one more level final; so many levels are a bug.
  const uint64_t most = 4 * (uint64_t{resources_.size()} + 4) * (resources_.size() + 4);
  for (size_t next = 0; next < dirty_.size(); ++next) {
    R2CCL_CHECK(next < most);
    ResourceState& resource = resources_[dirty_[next]];
    resource.dirty = false;
    const double before = levels_[dirty_[next]];
    const double after = level_of(resource);
    if (is_same(before, after)) continue;
    levels_[dirty_[next]] = after;
    spread(resource, before, after);
  }
  dirty_.clear();
}

// Marks the resources that a flow of this one sees through its level.
void MaxMin::spread(const ResourceState& resource, double before, double after) {
  for (const Member& member : resource.members) {
    touch(member.flow);
    if (member.other != kSeveral) {
      spread_to(member.other, before, after);
      continue;
    }
    const FlowState& flow = flows_[member.flow];
    for (uint32_t i = 0; i < flow.count; ++i) {
      if (i != member.index) spread_to(flow.resources[i], before, after);
    }
  }
}

// A resource that holds the flow at its own level, whatever this one gives, stays as it is.
void MaxMin::spread_to(Resource other, double before, double after) {
  const double level = levels_[other];
  if (before >= level && after >= level && level != kNoLevel) return;
  mark(other);
}

// Returns the least level of the flow's other resources.
double MaxMin::cap_of(const Member& member) const {
  if (member.other != kSeveral) return levels_[member.other];
  const FlowState& flow = flows_[member.flow];
  double cap = kNoLevel;
  for (uint32_t i = 0; i < flow.count; ++i) {
    if (i != member.index) cap = std::min(cap, levels_[flow.resources[i]]);
  }
  return cap;
}

double MaxMin::level_of(const ResourceState& resource) {
  if (resource.members.empty()) return kNoLevel;
  if (resource.members.size() == 1) {
    const Member& only = resource.members[0];
    const double level = resource.capacity / only.weight;
    return cap_of(only) <= level + level * kTolerance ? kNoLevel : level;
  }
  caps_.clear();
  double weight = 0;
  for (const Member& member : resource.members) {
    caps_.push_back({cap_of(member), member.weight});
    weight += member.weight;
  }
  // Flows that others hold below an equal share leave the rest to those that are left.
  double rest = resource.capacity;
  size_t left = caps_.size();
  while (left > 0) {
    const double level = rest / weight;
    const double most = level + resource.capacity / weight * kTolerance;
    const size_t before = left;
    for (size_t i = 0; i < left;) {
      if (caps_[i].level > most) {
        ++i;
        continue;
      }
      rest = std::max(rest - caps_[i].level * caps_[i].weight, 0.0);
      weight -= caps_[i].weight;
      std::swap(caps_[i], caps_[--left]);
    }
    if (left == before) return level;
  }
  return kNoLevel;
}

double MaxMin::rate_by_levels(const FlowState& flow) const {
  double rate = kNoLevel;
  for (uint32_t i = 0; i < flow.count; ++i) {
    rate = std::min(rate, levels_[flow.resources[i]]);
  }
  R2CCL_CHECK(rate != kNoLevel);
  return flow.weight * rate;
}

}  // namespace r2ccl::sim
