#include "tools/lab/lab_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tools/common/fd.h"
#include "tools/lab/lab_spec.h"

namespace r2ccl::tools {
namespace {

// This folder holds labs only: a lab called `sshd` must not touch /run/sshd.
constexpr const char* kLabs = "/run/r2ccl-lab";
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kFolderMode = 0755;
constexpr mode_t kFileMode = 0644;

// Opens the parent folder. Its owner decides which files the lab believes.
Result<Fd> open_labs() {
  Fd labs(open(kLabs, kFolderFlags));
  if (!labs.valid()) return system_error(std::string("cannot open ") + kLabs, errno);
  struct stat found {};
  if (fstat(labs.get(), &found) != 0) return system_error(kLabs, errno);
  if (found.st_uid != geteuid()) {
    return Status(Code::system, std::string(kLabs) + " belongs to uid " +
                                    std::to_string(found.st_uid) + ": remove it");
  }
  return labs;
}

Result<Fd> open_folder(const std::string& name) {
  Result<Fd> labs = open_labs();
  if (!labs.ok()) return labs.status();
  Fd folder(openat(labs.value().get(), name.c_str(), kFolderFlags));
  if (!folder.valid()) return system_error(std::string("cannot open ") + kLabs + "/" + name, errno);
  return folder;
}

}  // namespace

Result<LabFolder> LabFolder::of(const std::string& name) {
  R2CCL_RETURN_IF_ERROR(check_lab_name(name));
  return LabFolder(name);
}

std::string LabFolder::path(const char* file) const {
  return std::string(kLabs) + "/" + name_ + "/" + file;
}

Status LabFolder::make() const {
  if (mkdir(kLabs, kFolderMode) != 0 && errno != EEXIST) {
    return system_error(std::string("cannot make ") + kLabs, errno);
  }
  Result<Fd> labs = open_labs();
  if (!labs.ok()) return labs.status();
  if (mkdirat(labs.value().get(), name_.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return system_error(std::string("cannot make ") + kLabs + "/" + name_, errno);
  }
  return open_folder(name_).status();
}

Status LabFolder::write(const char* file, const std::string& text) const {
  Result<Fd> folder = open_folder(name_);
  if (!folder.ok()) return folder.status();
  const Fd out(openat(folder.value().get(), file,
                      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!out.valid()) return system_error("cannot write " + path(file), errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(out.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot write " + path(file), errno);
    done += static_cast<size_t>(count);
  }
  return Status::ok_status();
}

Status LabFolder::remove() const {
  const Fd labs(open(kLabs, kFolderFlags));
  if (!labs.valid()) {
    return errno == ENOENT ? Status::ok_status()
                           : system_error(std::string("cannot open ") + kLabs, errno);
  }
  const Fd folder(openat(labs.get(), name_.c_str(), kFolderFlags));
  if (!folder.valid()) {
    if (errno == ENOENT) return Status::ok_status();
    return system_error(std::string("cannot open ") + kLabs + "/" + name_, errno);
  }
  for (const char* file : {kSpecFile, kHostsFile}) {
    if (unlinkat(folder.get(), file, 0) != 0 && errno != ENOENT) {
      return system_error("cannot remove " + path(file), errno);
    }
  }
  // Files of other programs keep the folder alive.
  if (unlinkat(labs.get(), name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOTEMPTY &&
      errno != EEXIST && errno != ENOENT) {
    return system_error(std::string("cannot remove ") + kLabs + "/" + name_, errno);
  }
  return Status::ok_status();
}

}  // namespace r2ccl::tools
