#include "sim/trial/fault_oracle.h"

#include <string>

#include "base/limits.h"

namespace r2ccl::sim {
namespace {

// Bytes that were on their way when an MTU hole began have arrived, and been acknowledged.
constexpr TimeNs kProofTime = kSecond;
// A verdict's time is that of its first evidence; more may come until it is announced.
constexpr TimeNs kVerdictTime = 3 * kSecond;

}  // namespace

bool FaultOracle::guilty(int rank, const PathEvent& event) const {
  if (event.cause == DownCause::closing) return true;
  if (faults_.killed(event.peer.value()) || faults_.killed(rank)) return true;
  if (event.local_nic == kNoNic) return true;  // a control stream of the management network
  return faults_.troubled(rank, event.local_nic.value(), event.at, event.at) ||
         faults_.troubled(event.peer.value(), event.remote_nic.value(), event.at, event.at);
}

bool FaultOracle::returned_too_soon(int rank, const PathEvent& event) const {
  // Without a data connection nothing has shown that full-size frames pass, and no chunk goes.
  if (event.from != PathPhase::validating || event.local_nic == kNoNic || !event.data) return false;
  return faults_.swallows_full_frames(rank, event.local_nic.value(), event.at, kProofTime) ||
         faults_.swallows_full_frames(event.peer.value(), event.remote_nic.value(), event.at,
                                      kProofTime);
}

bool FaultOracle::deserved(const Verdict& verdict, TimeNs at) const {
  if (verdict.kind == DownCause::tampered) return was_tampered(verdict, at);
  switch (verdict.scope) {
    case Scope::nic:
      return troubled(verdict.faulty, at) || alone_on_rail(verdict.faulty, at);
    case Scope::pair:
      return troubled(verdict.faulty, at) || troubled(verdict.other, at);
    case Scope::host:
      return troubled(verdict.faulty, at);
    case Scope::rail:
      for (int host = 0; host < scenario_.hosts; ++host) {
        if (troubled({static_cast<uint32_t>(host), verdict.faulty.nic}, at)) return true;
      }
      return false;
    case Scope::process:
      return faults_.killed(verdict.process.value());
  }
  return false;
}

bool FaultOracle::was_tampered(const Verdict& verdict, TimeNs at) const {
  return verdict.scope == Scope::pair &&
         faults_.changed_frames(verdict.faulty, verdict.other, at + limits::kTamperedTime) >=
             limits::kTamperedEnds;
}

// No other NIC of the rail was whole, so none could be a witness for this one.
bool FaultOracle::alone_on_rail(const NicName& name, TimeNs at) const {
  for (int host = 0; host < scenario_.hosts; ++host) {
    const NicName other{static_cast<uint32_t>(host), name.nic};
    if (other.host != name.host && !troubled(other, at)) return false;
  }
  return true;
}

// An empty name stands for any NIC of the host.
bool FaultOracle::troubled(const NicName& name, TimeNs at) const {
  const int host = static_cast<int>(name.host);
  for (int nic = 0; nic < scenario_.nics; ++nic) {
    const bool meant = name.nic.empty() || name.nic == "nic" + std::to_string(nic);
    if (meant && faults_.may_be_named(host, nic, at, at + kVerdictTime)) return true;
  }
  return false;
}

}  // namespace r2ccl::sim
