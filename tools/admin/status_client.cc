#include "tools/admin/status_client.h"

#include <dirent.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>

namespace r2ccl::tools {
namespace {

constexpr std::string_view kPrefix = "r2ccl-";

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

bool parse_uid(std::string_view text, uid_t& uid) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  return error == std::errc() && end == text.data() + text.size();
}

void add(std::vector<StatusPlace>& places, const std::string& runtime_dir, uid_t uid) {
  const std::string directory = status_directory(runtime_dir, uid);
  const bool known = std::any_of(places.begin(), places.end(), [&](const StatusPlace& place) {
    return place.directory == directory;
  });
  if (!known) places.push_back({directory, uid});
}

// Adds every user's directory in `parent`.
void add_all(std::vector<StatusPlace>& places, const std::string& parent) {
  for (const std::string& entry : entries_of(parent)) {
    uid_t uid = 0;
    if (!std::string_view(entry).starts_with(kPrefix)) continue;
    if (parse_uid(std::string_view(entry).substr(kPrefix.size()), uid)) add(places, parent, uid);
  }
}

}  // namespace

std::vector<StatusPlace> status_places(const char* (*get)(const char* name), uid_t uid) {
  std::vector<StatusPlace> places;
  if (const char* named = get("XDG_RUNTIME_DIR"); named != nullptr) add(places, named, uid);
  add(places, "/run/user/" + std::to_string(uid), uid);
  add(places, "/tmp", uid);
  if (uid != 0) return places;
  add_all(places, "/tmp");
  for (const std::string& user : entries_of("/run/user")) {
    uid_t other = 0;
    if (parse_uid(user, other)) add_all(places, "/run/user/" + user);
  }
  return places;
}

StatusSockets find_status_sockets(const std::vector<StatusPlace>& places) {
  StatusSockets found;
  for (const StatusPlace& place : places) {
    const std::vector<std::string> entries = entries_of(place.directory);
    if (entries.empty()) continue;
    const Status trusted = check_status_directory(place.directory, place.owner);
    if (!trusted.ok()) {
      found.problems.push_back(trusted.message());
      continue;
    }
    for (const std::string& entry : entries) {
      const auto name = parse_status_name(entry);
      if (name) found.files.push_back({place.directory + "/" + entry, place.owner, *name});
    }
  }
  std::sort(found.files.begin(), found.files.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.name.comm, a.owner, a.name.rank, a.path) <
           std::tuple(b.name.comm, b.owner, b.name.rank, b.path);
  });
  return found;
}

std::vector<LocalJob> choose_jobs(const StatusSockets& found, uint32_t pid,
                                  const std::string& comm) {
  std::vector<LocalJob> jobs;
  for (const StatusSocketFile& file : found.files) {
    if (!comm_text(file.name.comm).starts_with(comm)) continue;
    if (jobs.empty() || jobs.back().comm != file.name.comm || jobs.back().owner != file.owner) {
      jobs.push_back({file.name.comm, file.owner, {}});
    }
    jobs.back().files.push_back(file);
  }
  if (pid != 0) {
    std::erase_if(jobs, [&](const LocalJob& job) {
      return std::ranges::none_of(
          job.files, [&](const StatusSocketFile& file) { return file.name.pid == pid; });
    });
  }
  return jobs;
}

bool is_foreign(uid_t uid) {
  return uid != geteuid();
}

std::string user_text(uid_t uid) {
  const passwd* entry = getpwuid(uid);
  const std::string number = "uid " + std::to_string(uid);
  return entry == nullptr ? number : std::string(entry->pw_name) + " (" + number + ")";
}

}  // namespace r2ccl::tools
