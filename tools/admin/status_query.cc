#include "tools/admin/status_query.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>

#include "tools/common/fd.h"

namespace r2ccl::tools {
namespace {

constexpr size_t kAnswerBytesMax = 20 * 1024 * 1024;  // more than any rank sends
// Below the usual limit of 1,024 descriptors.
constexpr size_t kOpenMax = 512;
// Bounds for one other user at a time: the sockets asked, and the bytes of all their answers.
constexpr size_t kForeignOpenMax = 64;
constexpr size_t kForeignBytesMax = 64 * 1024 * 1024;
constexpr size_t kNestingMax = 64;
constexpr size_t kReadBytes = 64 * 1024;

class Inquiry {
 public:
  Inquiry(const std::vector<JobQuery>& queries, const Clock& clock);
  std::vector<JobReply> run();

 private:
  struct Asked {  // a rank whose answer is awaited
    size_t query = 0;
    size_t file = 0;
    Fd socket;
    std::string text;
    bool ended = false;
  };
  struct Course {  // the state of one query
    TimeNs limit_at = 0;
    TimeNs more_at = 0;
    size_t next = 0;      // the first file that was not asked
    size_t open = 0;      // ranks that were asked and have not answered
    size_t wanted = 1;    // the bound of `open`
    size_t next_add = 1;  // the next growth of the bound, when patience ends
    bool done = false;
  };
  struct Share {  // the share of one user
    size_t open = 0;
    size_t bytes = 0;
  };

  void advance(size_t index, TimeNs now);
  void ask_more(size_t index);
  bool has_room(uid_t owner);
  void ask_next(size_t index);
  std::string connect_to(const StatusSocketFile& file, Fd* socket, bool* gone) const;
  void wait(TimeNs now);
  void read_from(Asked& asked);
  void take(Asked& asked);
  void end(Asked& asked, const std::string& why);
  void give_up(size_t index);
  void drop_ended();

  const std::vector<JobQuery>& queries_;
  const Clock& clock_;
  std::vector<Course> courses_;
  std::vector<JobReply> replies_;
  std::list<Asked> asked_;
  std::map<uid_t, Share> shares_;
  std::vector<char> part_ = std::vector<char>(kReadBytes);
};

Inquiry::Inquiry(const std::vector<JobQuery>& queries, const Clock& clock)
    : queries_(queries), clock_(clock), courses_(queries.size()), replies_(queries.size()) {
  const TimeNs now = clock_.now();
  for (size_t i = 0; i < queries.size(); ++i) {
    courses_[i].limit_at = now + queries[i].limit;
    courses_[i].more_at = now + queries[i].patience;
  }
}

std::vector<JobReply> Inquiry::run() {
  while (true) {
    const TimeNs now = clock_.now();
    // The caller's own jobs come first: another user may have more sockets than this process can
    // open.
    for (const bool foreign : {false, true}) {
      for (size_t i = 0; i < queries_.size(); ++i) {
        if (is_foreign(queries_[i].job.owner) == foreign) advance(i, now);
      }
    }
    drop_ended();
    if (std::ranges::all_of(courses_, [](const Course& course) { return course.done; })) break;
    wait(now);
  }
  return std::move(replies_);
}

void Inquiry::advance(size_t index, TimeNs now) {
  Course& course = courses_[index];
  if (course.done) return;
  if (now >= course.limit_at) return give_up(index);
  if (now >= course.more_at) {
    course.more_at = now + queries_[index].patience;
    course.wanted = course.open + course.next_add;
    course.next_add *= 2;
  }
  ask_more(index);
}

void Inquiry::ask_more(size_t index) {
  Course& course = courses_[index];
  const LocalJob& job = queries_[index].job;
  while (course.next < job.files.size() && course.open < course.wanted && has_room(job.owner)) {
    ask_next(index);
  }
  course.done = course.next == job.files.size() && course.open == 0;
}

bool Inquiry::has_room(uid_t owner) {
  if (asked_.size() >= kOpenMax) return false;
  return !is_foreign(owner) || shares_[owner].open < kForeignOpenMax;
}

void Inquiry::ask_next(size_t index) {
  Course& course = courses_[index];
  const size_t next = course.next++;
  const StatusSocketFile& file = queries_[index].job.files[next];
  Asked asked{index, next, {}, {}, false};
  bool gone = false;
  const std::string why = connect_to(file, &asked.socket, &gone);
  if (gone) return;
  if (!why.empty()) {
    replies_[index].silent.push_back({file, why});
    return;
  }
  // A new socket takes a line at once.
  const std::string& line = queries_[index].request;
  if (send(asked.socket.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) {
    replies_[index].silent.push_back({file, std::strerror(errno)});
    return;
  }
  ++course.open;
  ++shares_[file.owner].open;
  asked_.push_back(std::move(asked));
}

// Returns the reason why the socket is not connected; empty if it is. Sets `gone` if no process
// listens there any more.
std::string Inquiry::connect_to(const StatusSocketFile& file, Fd* socket, bool* gone) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (file.path.size() >= sizeof address.sun_path) return "its name is too long";
  std::memcpy(address.sun_path, file.path.c_str(), file.path.size() + 1);
  *socket = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket->valid()) return std::strerror(errno);
  if (connect(socket->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // ENOENT: the process ended after the directory was read.
    *gone = errno == ECONNREFUSED || errno == ENOENT;
    return errno == EAGAIN ? "too many ask it already, or it is stopped" : std::strerror(errno);
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket->get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      (peer.uid != file.owner && peer.uid != 0)) {
    return "another user's process listens there";
  }
  return "";
}

void Inquiry::wait(TimeNs now) {
  TimeNs next = kNever;
  for (size_t i = 0; i < courses_.size(); ++i) {
    const Course& course = courses_[i];
    if (course.done) continue;
    next = std::min(next, course.limit_at);
    if (course.next < queries_[i].job.files.size()) next = std::min(next, course.more_at);
  }
  std::vector<pollfd> polled;
  polled.reserve(asked_.size());
  for (const Asked& asked : asked_) polled.push_back({asked.socket.get(), POLLIN, 0});
  const TimeNs left = std::max<TimeNs>(next - now, 0);
  if (poll(polled.data(), polled.size(), static_cast<int>(left / kMillisecond + 1)) <= 0) return;
  size_t i = 0;
  for (Asked& asked : asked_) {
    if (polled[i++].revents != 0 && !asked.ended) read_from(asked);
  }
}

// Reads one part at a time, so that an endless answer delays no other.
void Inquiry::read_from(Asked& asked) {
  const ssize_t count = recv(asked.socket.get(), part_.data(), part_.size(), 0);
  if (count == 0) return take(asked);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count < 0) return end(asked, std::strerror(errno));
  const auto bytes = static_cast<size_t>(count);
  const uid_t owner = queries_[asked.query].job.owner;
  asked.text.append(part_.data(), bytes);
  shares_[owner].bytes += bytes;
  if (asked.text.size() > kAnswerBytesMax) return end(asked, "its answer has no end");
  if (is_foreign(owner) && shares_[owner].bytes > kForeignBytesMax) {
    end(asked, "the answers of " + user_text(owner) + " are too long together");
  }
}

void Inquiry::take(Asked& asked) {
  const JobQuery& query = queries_[asked.query];
  // An answer is one line.
  if (asked.text.empty() || asked.text.back() != '\n') return end(asked, "it may be stopped");
  nlohmann::json answer = parse_status_answer(asked.text);
  if (answer.is_null()) return end(asked, "its answer is no JSON object");
  if (query.refuse_problems && answer.contains("problem")) {
    return end(asked, answer["problem"].is_string() ? answer["problem"].get<std::string>()
                                                    : "its answer is a problem without a text");
  }
  JobReply& reply = replies_[asked.query];
  reply.answer = std::move(answer);
  reply.speaker = query.job.files[asked.file];
  courses_[asked.query].done = true;
  for (Asked& other : asked_) {
    if (other.query == asked.query && !other.ended) end(other, "");
  }
}

// `why` is the reason of its silence; empty if no answer was expected.
void Inquiry::end(Asked& asked, const std::string& why) {
  const StatusSocketFile& file = queries_[asked.query].job.files[asked.file];
  asked.ended = true;
  --courses_[asked.query].open;
  --shares_[file.owner].open;
  if (!why.empty()) replies_[asked.query].silent.push_back({file, why});
}

void Inquiry::give_up(size_t index) {
  for (Asked& asked : asked_) {
    if (asked.query == index && !asked.ended) end(asked, "it may be stopped");
  }
  Course& course = courses_[index];
  const LocalJob& job = queries_[index].job;
  for (; course.next < job.files.size(); ++course.next) {
    replies_[index].silent.push_back(
        {job.files[course.next], "the time was up before it was asked"});
  }
  course.done = true;
}

void Inquiry::drop_ended() {
  asked_.remove_if([](const Asked& asked) { return asked.ended; });
}

}  // namespace

std::vector<JobReply> ask_jobs(const std::vector<JobQuery>& queries, const Clock& clock) {
  return Inquiry(queries, clock).run();
}

nlohmann::json parse_status_answer(const std::string& text) {
  using nlohmann::json;
  bool deep = false;
  const json::parser_callback_t check = [&deep](int depth, json::parse_event_t, json&) {
    deep = deep || static_cast<size_t>(depth) > kNestingMax;
    return !deep;
  };
  json parsed = json::parse(text, check, false);
  if (deep || !parsed.is_object()) return nullptr;
  return parsed;
}

}  // namespace r2ccl::tools
