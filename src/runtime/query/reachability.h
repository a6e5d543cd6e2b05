// The state of a rank when its answer is wanted.
#pragma once

#include <cstdint>

#include "protocol/path/peer_liveness.h"

namespace r2ccl {

enum class Reachability : uint8_t {
  answered,
  no_answer,  // not within the time limit
  left,       // said goodbye
  dead,
  cut_off,
};

inline const char* to_string(Reachability reachability) {
  switch (reachability) {
    case Reachability::answered:
      return "answered";
    case Reachability::no_answer:
      return "no answer";
    case Reachability::left:
      return "left";
    case Reachability::dead:
      return "dead";
    case Reachability::cut_off:
      return "cut off";
  }
  return "unknown";
}

inline Reachability reachability_of(PeerEnd end) {
  switch (end) {
    case PeerEnd::goodbye:
      return Reachability::left;
    case PeerEnd::dead:
      return Reachability::dead;
    case PeerEnd::cut_off:
      return Reachability::cut_off;
  }
  return Reachability::dead;
}

}  // namespace r2ccl
