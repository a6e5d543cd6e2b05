#include "status_client.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>

#include "fd.h"

namespace r2ccl::tools {
namespace {

constexpr size_t kAnswerBytesMax = 20 * 1024 * 1024;  // more than any rank says
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

// Every user's directory in `parent`.
void add_all(std::vector<StatusPlace>& places, const std::string& parent) {
  for (const std::string& entry : entries_of(parent)) {
    uid_t uid = 0;
    if (!std::string_view(entry).starts_with(kPrefix)) continue;
    if (parse_uid(std::string_view(entry).substr(kPrefix.size()), uid)) add(places, parent, uid);
  }
}

StatusAnswer silent(const std::string& why) {
  return {StatusAnswer::Kind::silent, why};
}

// Waits until `events` are there; false when the time is up.
bool wait_for(const Fd& socket, short events, TimeNs deadline, const Clock& clock) {
  while (true) {
    const TimeNs left = deadline - clock.now();
    if (left <= 0) return false;
    pollfd wanted{socket.get(), events, 0};
    const int ready = poll(&wanted, 1, static_cast<int>(left / kMillisecond + 1));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

StatusAnswer connect_to(const StatusSocketFile& file, const Fd& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (file.path.size() >= sizeof address.sun_path) return silent("its name is too long");
  std::memcpy(address.sun_path, file.path.c_str(), file.path.size() + 1);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // ENOENT: it ended after the directory was read.
    if (errno == ECONNREFUSED || errno == ENOENT) return {StatusAnswer::Kind::gone, ""};
    return silent(errno == EAGAIN ? "too many ask it already, or it is stopped"
                                  : std::strerror(errno));
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      (peer.uid != file.owner && peer.uid != 0)) {
    return silent("another user's process listens there");
  }
  return {StatusAnswer::Kind::text, ""};
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
    return std::tuple(a.name.comm, a.name.rank, a.path) <
           std::tuple(b.name.comm, b.name.rank, b.path);
  });
  return found;
}

std::vector<LocalJob> choose_jobs(const StatusSockets& found, uint32_t pid,
                                  const std::string& comm) {
  std::vector<LocalJob> jobs;
  std::vector<uint64_t> chosen;
  for (const StatusSocketFile& file : found.files) {
    if (!comm_text(file.name.comm).starts_with(comm)) continue;
    if (jobs.empty() || jobs.back().comm != file.name.comm) jobs.push_back({file.name.comm, {}});
    jobs.back().files.push_back(file);
    if (file.name.pid == pid) chosen.push_back(file.name.comm);
  }
  if (pid != 0) {
    std::erase_if(jobs, [&](const LocalJob& job) {
      return std::find(chosen.begin(), chosen.end(), job.comm) == chosen.end();
    });
  }
  return jobs;
}

StatusAnswer ask_status(const StatusSocketFile& file, const std::string& request, TimeNs timeout_ns,
                        const Clock& clock) {
  const TimeNs deadline = clock.now() + timeout_ns;
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return silent(std::strerror(errno));
  StatusAnswer answer = connect_to(file, socket);
  if (answer.kind != StatusAnswer::Kind::text) return answer;
  // A fresh socket takes a line at once.
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return silent(std::strerror(errno));
  }
  std::vector<char> part(64 * 1024);
  while (wait_for(socket, POLLIN, deadline, clock)) {
    const ssize_t count = recv(socket.get(), part.data(), part.size(), 0);
    if (count == 0) break;
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return silent(std::strerror(errno));
    answer.text.append(part.data(), static_cast<size_t>(count));
    if (answer.text.size() > kAnswerBytesMax) return silent("its answer has no end");
  }
  // An answer is one line.
  if (answer.text.empty() || answer.text.back() != '\n') return silent("it may be stopped");
  return answer;
}

}  // namespace r2ccl::tools
