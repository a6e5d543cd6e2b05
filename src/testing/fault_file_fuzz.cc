#include <string>

#include "base/check.h"
#include "testing/fuzz.h"
#include "testing/fuzz_text.h"
#include "transport/faulty/fault_file.h"

namespace r2ccl {
namespace {

std::string hexadecimal(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// Returns the line of a fault file that gives `nic` the fault.
std::string line_of(const std::string& nic, const NicFault& fault) {
  std::string line = nic;
  if (fault.down) line += " down";
  if (fault.hole_tx) line += " hole-tx";
  if (fault.hole_rx) line += " hole-rx";
  if (fault.no_buffers) line += " no-buffers";
  if (fault.no_events) line += " no-events";
  if (fault.bytes_per_s != 0) line += " slow " + std::to_string(fault.bytes_per_s);
  if (fault.delay_ns != 0) line += " delay " + std::to_string(fault.delay_ns / kMillisecond);
  if (fault.queue_bytes != 0) line += " queue " + std::to_string(fault.queue_bytes);
  if (fault.change.order != 0) {
    const bool adds = fault.change.added > 0;
    const uint32_t amount = adds ? fault.change.added : fault.change.bit + 1;
    line += (adds ? " add " : " flip ") + hexadecimal(fault.change.pattern) + " " +
            std::to_string(amount) + " " + std::to_string(fault.change.order);
  }
  return line + "\n";
}

}  // namespace

bool fuzz_fault_file(std::span<const std::byte> input) {
  const FaultFileContent content = parse_fault_file(fuzz_text(input));
  for (const std::string& complaint : content.complaints) {
    const size_t colon = complaint.find(" is ignored: ");
    R2CCL_CHECK(complaint.starts_with("line ") && colon != std::string::npos);
    R2CCL_CHECK(!complaint.ends_with(": "));
  }
  std::string text;
  for (const auto& [nic, fault] : content.faults) text += line_of(nic, fault);
  const FaultFileContent again = parse_fault_file(text);
  R2CCL_CHECK(again.complaints.empty() && again.faults == content.faults);
  return !content.faults.empty() && content.complaints.empty();
}

}  // namespace r2ccl
