// The trouble that faults made, as the oracle asks for it.
#include <algorithm>

#include "sim/cluster/fault_script.h"

namespace r2ccl::sim {

bool FaultScript::troubled(int host, int nic, TimeNs from, TimeNs to) const {
  return std::ranges::any_of(troubles_, [&](const Trouble& trouble) {
    return trouble.host == host && trouble.nic == nic && trouble.from <= to && from <= trouble.to;
  });
}

size_t FaultScript::changed_frames(const NicName& one, const NicName& other, TimeNs until) const {
  const auto hit = [&](size_t fault, const NicName& name) {
    return std::ranges::any_of(troubles_, [&](const Trouble& trouble) {
      const bool of_nic = name.nic.empty() || name.nic == "nic" + std::to_string(trouble.nic);
      return trouble.fault == fault && trouble.from <= until && of_nic &&
             trouble.host == static_cast<int>(name.host);
    });
  };
  size_t count = 0;
  for (size_t i = 0; i < faults_.size(); ++i) {
    const FaultKind kind = faults_[i].spec.kind;
    const bool changes =
        kind == FaultKind::flip || kind == FaultKind::repeat || kind == FaultKind::add;
    count += changes && hit(i, one) && hit(i, other) ? 1 : 0;
  }
  return count;
}

bool FaultScript::may_be_named(int host, int nic, TimeNs from, TimeNs to) const {
  return std::ranges::any_of(troubles_, [&](const Trouble& trouble) {
    return trouble.host == host && trouble.nic == nic && trouble.from <= to && from <= trouble.to &&
           !of_bytes(faults_[trouble.fault].spec.kind) &&
           !of_people(faults_[trouble.fault].spec.kind);
  });
}

}  // namespace r2ccl::sim
