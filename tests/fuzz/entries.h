// The fuzzers by name. Each has its stored inputs in tests/fuzz/corpus/NAME.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/check.h"
#include "testing/fuzz.h"
#include "testing/plan_json_fuzz.h"
#include "testing/scenario_file_fuzz.h"

namespace r2ccl {

using FuzzFunction = bool (*)(std::span<const std::byte> input);

struct FuzzEntry {
  const char* name;
  FuzzFunction run;
};

inline constexpr FuzzEntry kFuzzEntries[] = {
    {"blame", fuzz_blame},
    {"call_report", fuzz_call_report},
    {"drain", fuzz_drain},
    {"environment", fuzz_environment},
    {"fault_file", fuzz_fault_file},
    {"frame_reader", fuzz_frame_reader},
    {"handshake", fuzz_handshake},
    {"nccl_connect", fuzz_nccl_connect},
    {"netlink", fuzz_netlink},
    {"notice", fuzz_notice},
    {"plan_json", fuzz_plan_json},
    {"plan_text", fuzz_plan_text},
    {"printable", fuzz_printable},
    {"process_handle", fuzz_process_handle},
    {"query", fuzz_query},
    {"rank_card", fuzz_rank_info},
    {"rank_summary", fuzz_rank_summary},
    {"rendezvous_messages", fuzz_rendezvous_messages},
    {"scenario_file", fuzz_scenario_file},
    {"sealed_stream", fuzz_sealed_stream},
    {"shrink", fuzz_shrink},
    {"status_request", fuzz_status_request},
    {"tagged_frame", fuzz_tagged_frame},
    {"unique_id", fuzz_unique_id},
    {"view", fuzz_view},
    {"wire", fuzz_wire},
};

// Requires that `name` is in the table.
inline FuzzFunction fuzz_entry(std::string_view name) {
  for (const FuzzEntry& entry : kFuzzEntries) {
    if (entry.name == name) return entry.run;
  }
  R2CCL_CHECK(false && "no fuzzer has this name");
  return nullptr;
}

}  // namespace r2ccl
