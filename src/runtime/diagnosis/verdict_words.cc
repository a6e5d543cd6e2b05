#include "runtime/diagnosis/verdict_words.h"

#include "base/log.h"

namespace r2ccl {

std::string words_for(const Verdict& verdict, const JobMap& job) {
  const auto name = [&](const NicName& nic) {
    return job.host_name(nic.host) + (nic.nic.empty() ? "" : " " + nic.nic);
  };
  const std::string faulty = name(verdict.faulty);
  switch (verdict.scope) {
    case Scope::nic:
      return faulty;
    case Scope::pair:
      return "between " + faulty + " and " + name(verdict.other);
    case Scope::rail:
      return "the rail of " + faulty;
    case Scope::host:
      return "all NICs of " + faulty;
    case Scope::process:
      return "the process of rank " + std::to_string(verdict.process.value()) + " on " + faulty;
  }
  return faulty;
}

void log_verdict(const std::string& subject, const Verdict& verdict, bool replaces) {
  if (verdict.kind == DownCause::lossy) {
    R2CCL_LOG(warn, "%s: lossy, %.2g %% of the packets are lost; it stays in use%s",
              subject.c_str(), static_cast<double>(verdict.loss_ppm) / 1e4,
              replaces ? ", in place of a less precise verdict" : "");
  } else if (verdict.kind == DownCause::tampered) {
    R2CCL_LOG(warn,
              "%s: tampered, bytes were changed, repeated or left out on the way; no element is "
              "wrong for it, and it stays in use",
              subject.c_str());
  } else {
    R2CCL_LOG(warn, "%s: %s, %llu bytes replayed", subject.c_str(), to_string(verdict.kind),
              static_cast<unsigned long long>(verdict.retransmitted_bytes));
  }
}

}  // namespace r2ccl
