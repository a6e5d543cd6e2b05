#include "sim/trial/coverage.h"

#include "sim/cluster/operation_values.h"

namespace r2ccl::sim {

void cover(const Scenario& scenario, const std::vector<MixedJob::Span>& operations,
           const std::vector<FaultScript::Span>& faults, std::set<std::string>& covered) {
  for (const MixedJob::Span& span : operations) {
    if (!span.checked) continue;
    const OperationSpec& spec = scenario.operations[span.operation];
    const std::string kind = kChecked + std::string(to_string(spec.kind)) + ", ";
    const std::string type = kind + to_string(spec.type);
    covered.insert(reduces(spec) ? type + ", " + to_string(spec.op) : type);
    for (const FaultScript::Span& fault : faults) {
      if (fault.from > span.to || (fault.to != kNever && fault.to < span.from)) continue;
      covered.insert(kind + to_string(fault.spec.kind));
    }
  }
}

}  // namespace r2ccl::sim
