// The folder /run/r2ccl-lab/NAME with the state of one lab. No other code joins a lab's name to a
// path: root runs the lab, so a name that is a path would let it write and delete anywhere.
#pragma once

#include <string>

#include "base/status.h"

namespace r2ccl::tools {

class LabFolder {
 public:
  static constexpr const char* kHostsFile = "hosts";
  static constexpr const char* kSpecFile = "lab.json";

  // Refuses a name that check_lab_name() refuses; touches no file.
  static Result<LabFolder> of(const std::string& name);

  // Makes the folder. Requires that the parent folder, if it exists, is a directory of this user.
  Status make() const;
  Status write(const char* file, const std::string& text) const;
  // Removes the lab's files, and the folder if nothing else is in it. Follows no link.
  Status remove() const;

  std::string path(const char* file) const;

 private:
  explicit LabFolder(std::string name) : name_(std::move(name)) {}

  std::string name_;
};

}  // namespace r2ccl::tools
