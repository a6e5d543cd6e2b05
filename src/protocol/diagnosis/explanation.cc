#include "protocol/diagnosis/explanation.h"

#include <algorithm>

#include "base/check.h"
#include "base/mutant.h"

namespace r2ccl {
namespace {

using Components = std::set<NicName>;

bool explains(const Components& chosen, const NicPair& pair) {
  return chosen.contains(pair.first) || chosen.contains(pair.second) ||
         chosen.contains({pair.first.host, ""}) || chosen.contains({pair.second.host, ""});
}

// Finds all sets of at most `room` components that, with `chosen`, explain the pairs from `next`
// on. Branches on the suspects of the first pair that is left: one of them is in every such set.
void find_sets(const std::vector<NicPair>& pairs, size_t next, const Suspects& suspects,
               Components& chosen, size_t room, std::set<Components>& found) {
  while (next < pairs.size() && explains(chosen, pairs[next])) ++next;
  if (next == pairs.size()) {
    found.insert(chosen);
    return;
  }
  if (room == 0) return;
  const auto try_one = [&](const NicName& component) {
    chosen.insert(component);
    find_sets(pairs, next + 1, suspects, chosen, room - 1, found);
    chosen.erase(component);
  };
  for (const NicName& nic : {pairs[next].first, pairs[next].second}) {
    if (!suspects.innocent.contains(nic)) try_one(nic);
    if (suspects.dark.contains(nic.host)) try_one({nic.host, ""});
  }
}

// Returns the NICs that are the only suspect of some pair: each set contains them.
Components only_suspects(const std::vector<NicPair>& pairs, const Suspects& suspects) {
  Components forced;
  for (const NicPair& pair : pairs) {
    for (const NicName& nic : {pair.first, pair.second}) {
      const bool may_be_dark = suspects.dark.contains(nic.host);
      if (suspects.innocent.contains(opposite(pair, nic)) && !may_be_dark) forced.insert(nic);
    }
  }
  std::erase_if(forced, [&](const NicName& nic) { return suspects.innocent.contains(nic); });
  return forced;
}

}  // namespace

std::set<NicName> in_every_smallest_set(const std::vector<NicPair>& pairs, const Suspects& suspects,
                                        size_t size_max) {
  const Components forced = only_suspects(pairs, suspects);
  for (size_t size = 0; size <= size_max; ++size) {
    std::set<Components> sets;
    Components chosen = forced;
    find_sets(pairs, 0, suspects, chosen, size, sets);
    if (sets.empty()) continue;
    Components common = *sets.begin();
    if (mutated(Mutant::loss_any_cover)) return common;
    for (const Components& set : sets) {
      std::erase_if(common, [&](const NicName& each) { return !set.contains(each); });
    }
    return common;
  }
  return {};
}

std::vector<NicPair> take_component(std::vector<NicPair>& pairs, const std::set<uint32_t>& dark) {
  R2CCL_CHECK(!pairs.empty());
  const auto node = [&](const NicName& nic) {
    return dark.contains(nic.host) ? NicName{nic.host, ""} : nic;
  };
  std::set<NicName> nodes = {node(pairs.front().first), node(pairs.front().second)};
  std::vector<NicPair> component;
  for (bool grew = true; grew;) {
    grew = false;
    std::erase_if(pairs, [&](const NicPair& pair) {
      if (!nodes.contains(node(pair.first)) && !nodes.contains(node(pair.second))) return false;
      nodes.insert({node(pair.first), node(pair.second)});
      component.push_back(pair);
      grew = true;
      return true;
    });
  }
  return component;
}

}  // namespace r2ccl
