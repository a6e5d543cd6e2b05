// Remembers statements of a peer that cannot be true, and the connection of each. The first one
// may be the fault of its connection, which is opened anew. The same one on another connection is
// the fault of a rank, which no connection mends. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/ids.h"

namespace r2ccl {

class Contradictions {
 public:
  // `what` names it fully, and never names the connection. True when it was said on another
  // connection before, or when the peer has said so many other things that no more are kept.
  bool repeated(const std::string& what, PathId path, Incarnation incarnation) {
    const std::pair connection(path, incarnation);
    if (const auto found = said_.find(what); found != said_.end()) {
      return found->second != connection;
    }
    if (said_.size() >= kKept) return true;
    said_.emplace(what, connection);
    return false;
  }

 private:
  // Sound peers say none.
  static constexpr size_t kKept = 64;

  std::map<std::string, std::pair<PathId, Incarnation>> said_;
};

}  // namespace r2ccl
