#include "tools/simulate/sim_mutants.h"

#include <array>
#include <cstdio>
#include <vector>

#include "tools/common/text_table.h"

namespace r2ccl::tools {
namespace {

struct MutantName {
  Mutant mutant;
  const char* name;
  const char* what;
};
constexpr std::array kMutants = {
#define R2CCL_MUTANT_ENTRY(name, what) MutantName{Mutant::name, #name, what},
    R2CCL_MUTANT_LIST(R2CCL_MUTANT_ENTRY)
#undef R2CCL_MUTANT_ENTRY
};

}  // namespace

Result<Mutant> mutant_named(const std::string& name) {
  std::string names;
  for (const MutantName& one : kMutants) {
    if (name == one.name) return one.mutant;
    names += std::string(names.empty() ? "" : ", ") + one.name;
  }
  return Status(Code::invalid_argument, "no mutant is called " + name + "; there are " + names);
}

int list_mutants() {
  std::vector<TextRow> rows;
  for (const MutantName& one : kMutants) {
    if (one.mutant != Mutant::none) rows.push_back({one.name, one.what});
  }
  std::fputs(layout(rows).c_str(), stdout);
  return 0;
}

}  // namespace r2ccl::tools
