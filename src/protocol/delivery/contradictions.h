// Remembers statements of a peer that cannot be true, and the connection of each. The first one may
// be the fault of its connection, which the link then opens anew. The same one on another
// connection is the fault of a rank, which no connection mends: it ends the job. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/ids.h"

namespace r2ccl {

class Contradictions {
 public:
  // Records a statement. `what` follows the word "it" and names the statement fully, never the
  // connection. `name`: of the path, for people. Returns true when the statement ends the job:
  // another connection brought it before, or the peer has made so many others that this object
  // keeps no more.
  bool add(const std::string& what, PathId path, Incarnation incarnation, const std::string& name) {
    if (final_ || !repeated(what, {path, incarnation})) return false;
    final_ = true;
    text_ = "it " + what + ", on two connections, the second by " + name;
    return true;
  }
  // Forgets the statements of a connection whose bytes were changed on the way: someone other than
  // the peer may have caused them.
  void forget(PathId path, Incarnation incarnation) {
    std::erase_if(said_, [&](const auto& each) {
      return each.second == Connection{path, incarnation};
    });
  }
  // Returns whether one statement has ended the job.
  bool final() const { return final_; }
  // Returns the text of that statement once; empty before and after.
  std::string take() { return std::exchange(text_, {}); }

  void check_invariants() const {
    R2CCL_CHECK(said_.size() <= kKept);
    R2CCL_CHECK(final_ || text_.empty());
  }

 private:
  using Connection = std::pair<PathId, Incarnation>;
  // A correct peer makes none.
  static constexpr size_t kKept = 64;

  bool repeated(const std::string& what, const Connection& connection) {
    if (const auto found = said_.find(what); found != said_.end()) {
      return found->second != connection;
    }
    if (said_.size() >= kKept) return true;
    said_.emplace(what, connection);
    return false;
  }

  std::map<std::string, Connection> said_;  // at most kKept
  std::string text_;                        // empty until final_
  bool final_ = false;
};

}  // namespace r2ccl
