// The status sockets of running jobs: answers, misbehaving clients, and requests of operators.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "job.h"

namespace job {
namespace {

constexpr int kRanks = 3;
constexpr size_t kLarge = 60 * 1003;
constexpr int kRoundsMore = 5;

void reduce(Comm& comm, Rounds& rounds) {
  for (int round = 0; rounds.enter(round); ++round) {
    Operation::all_reduce(comm, static_cast<uint32_t>(round), kLarge).finish();
  }
  check(comm.destroy(), "destroy");
}

class Connection {
 public:
  explicit Connection(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const timeval patience{kPatienceMs / 1000, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw Broken("cannot connect to " + path);
    }
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Returns false if the other end has closed.
  bool say(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) > 0;
  }
  std::string rest() const {
    std::string text;
    char part[4096];
    while (true) {
      const ssize_t count = recv(socket_, part, sizeof part, 0);
      if (count <= 0) return text;
      text.append(part, static_cast<size_t>(count));
    }
  }

 private:
  const int socket_;
};

std::vector<std::string> sockets_of(const Job& job) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(job.status_directory())) {
    paths.push_back(entry.path());
  }
  return paths;
}

std::string ask(const std::string& path, const std::string& request) {
  const Connection connection(path);
  connection.say(request);
  return connection.rest();
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Returns the part of the socket's name that identifies its communicator.
std::string comm_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  return name.substr(name.find('-') + 1, 16);
}

bool all_answer(const std::string& path) {
  return count(ask(path, "job\n"), "\"presence\":\"answered\"") == kRanks;
}

TEST(Status, OfAllRanksIsToldByEachOfThem) {
  Job job(kRanks);
  std::vector<Rounds> rounds(2);
  const RankBody first = [&](Comm& comm) { reduce(comm, rounds[0]); };
  const RankBody second = [&](Comm& comm) { reduce(comm, rounds[1]); };
  job.run({first, second}, [&] {
    const std::vector<std::string> paths = sockets_of(job);
    ASSERT_EQ(paths.size(), 2u * kRanks);
    std::set<std::string> comms;
    for (const std::string& path : paths) {
      comms.insert(comm_of(path));
      job.wait_for("answers of all ranks", [&] { return all_answer(path); });
      EXPECT_EQ(count(ask(path, "job\n"), "\"comm\":\"" + comm_of(path) + "\""), 1u);
      EXPECT_EQ(count(ask(path, "report\n"), "\"comm\":\"" + comm_of(path) + "\""), 1u);
    }
    EXPECT_EQ(comms.size(), 2u) << "one for each communicator";
    for (Rounds& each : rounds) each.stop();
  });
  EXPECT_TRUE(sockets_of(job).empty());
}

TEST(Status, TellsWhichPathIsDownWhyAndThatItCameBack) {
  Job job(kRanks);
  Rounds rounds;
  const std::string at = nic(1, 0);
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    const std::string path = sockets_of(job).front();
    job.wait_for("start", [&] { return job.comm(1).report().all(at, "up"); });
    job.fault(at, "down");
    job.wait_for("end of the NIC", [&] { return job.comm(1).report().all(at, "down"); });
    // Both ends of its two paths report them, with the reason.
    job.wait_for("trouble in the status", [&] {
      const std::string text = ask(path, "job\n");
      return count(text, "\"state\":\"down\"") == 4 && count(text, "\"cause\":\"none\"") == 0;
    });
    job.fault(at, "");
    job.wait_for("return of the NIC", [&] { return job.comm(1).report().all(at, "up"); });
    job.wait_for("a status without trouble",
                 [&] { return count(ask(path, "job\n"), "\"troubles\":[]") == kRanks; });
    const std::string report = job.comm(1).report().text;
    EXPECT_EQ(count(report, "\"downs\":1,\"returns\":1"), 2u) << report;
    EXPECT_EQ(count(report, "\"down_why\":\"\""), 2u) << "the other NIC's: " << report;
    rounds.stop();
  });
}

TEST(Status, DoesNotDisturbTheJobWhenItsClientsMisbehave) {
  Job job(kRanks);
  Rounds rounds;
  job.run({[&](Comm& comm) { reduce(comm, rounds); }}, [&] {
    const std::vector<std::string> paths = sockets_of(job);
    ASSERT_EQ(paths.size(), static_cast<size_t>(kRanks));
    std::atomic<bool> over{false};
    const auto repeat = [&](const std::function<void(const std::string&)>& deed) {
      return std::async(std::launch::async, [&over, &paths, deed] {
        for (size_t i = 0; !over; ++i) deed(paths[i % paths.size()]);
      });
    };
    std::vector<std::future<void>> clients;
    clients.push_back(repeat([](const std::string& path) { (void)ask(path, "job\n"); }));
    clients.push_back(repeat([](const std::string& path) { (void)ask(path, "report\n"); }));
    clients.push_back(repeat([](const std::string& path) { (void)Connection(path); }));
    clients.push_back(repeat([](const std::string& path) { (void)Connection(path).say("job\n"); }));
    clients.push_back(repeat([](const std::string& path) {
      const Connection flood(path);
      const std::string rubbish(64 * 1024, '\xff');
      while (flood.say(rubbish)) {
      }
    }));
    // Sends nothing until the rank closes the connection.
    clients.push_back(repeat([](const std::string& path) { (void)Connection(path).rest(); }));
    const int before = rounds.newest();
    job.wait_for("progress", [&] { return rounds.newest() >= before + kRoundsMore; });
    over = true;
    for (auto& each : clients) each.get();
    for (const std::string& path : paths) {
      job.wait_for("answers of all ranks", [&] { return all_answer(path); });
    }
    rounds.stop();
  });
}

TEST(Status, OfAFailedCommunicatorTellsTheError) {
  Job job(kRanks);
  Rounds rounds;
  const RankBody body = [&](Comm& comm) {
    for (int round = 0; rounds.enter(round); ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    (void)comm.destroy();
  };
  job.run({body}, [&] {
    const std::string path = sockets_of(job).front();
    job.comm(2).abort();
    std::string text;
    for (int i = 0; i < 1000 && count(text, "r2cclCommAbort was called") < kRanks; ++i) {
      text = ask(path, "job\n");
    }
    rounds.stop();
    EXPECT_GE(count(text, "r2cclCommAbort was called"), static_cast<size_t>(kRanks)) << text;
    EXPECT_EQ(count(text, "\"presence\":\"answered\""), static_cast<size_t>(kRanks)) << text;
  });
}

// Polls `holds`; some connections may still be outstanding.
bool comes_true(const std::function<bool()>& holds) {
  for (int64_t waited = 0; waited < kPatienceMs; waited += 5) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(Drain, IsTakenOverByACommunicatorThatIsMadeWhileItIsInForce) {
  Job job(kRanks);
  Rounds rounds;
  std::promise<r2cclUniqueId> made;
  const std::shared_future<r2cclUniqueId> id = made.get_future().share();
  const std::string at = nic(1, 1);
  std::atomic<int> taken_over{0};
  const RankBody body = [&](Comm& comm) {
    for (int round = 0; rounds.enter(round); ++round) {
      Operation::all_reduce(comm, static_cast<uint32_t>(round), kLarge).finish();
    }
    if (comm.rank() == 0) {
      r2cclUniqueId fresh;
      check(r2cclGetUniqueId(&fresh), "unique id");
      made.set_value(fresh);
    }
    Comm later(comm.rank(), comm.ranks(), id.get());
    for (uint32_t round = 0; round < kRoundsMore; ++round) {
      Operation::all_reduce(later, 1000 + round, kLarge).finish();
    }
    const std::string own = nic(comm.rank(), 1);
    EXPECT_TRUE(comes_true([&] {
      const Report report = later.report();
      return comm.rank() == 1 ? report.all(at, "drained") && report.all(nic(1, 0), "up")
                              : report.any(own, "drained") && report.any(own, "up");
    })) << later.report().text;
    // The client that asked for the drain takes it back in this communicator as well.
    ++taken_over;
    EXPECT_TRUE(comes_true([&] { return !later.report().any(own, "drained"); }))
        << later.report().text;
    check(later.destroy(), "destroy of the later one");
    check(comm.destroy(), "destroy");
  };
  job.run({body}, [&] {
    // A rank refuses to drain a NIC while a peer has no other path.
    job.wait_for("start", [&] {
      const Report report = job.comm(1).report();
      return report.all(at, "up") && report.all(nic(1, 0), "up");
    });
    const std::vector<std::string> first = sockets_of(job);
    const std::string answer = ask(first.front(), "drain start:7 lo@" + at + " host1\n");
    EXPECT_EQ(count(answer, "\"presence\":\"answered\""), static_cast<size_t>(kRanks)) << answer;
    job.wait_for("the drain", [&] { return job.comm(1).report().all(at, "drained"); });
    rounds.stop();
    job.wait_for("the later one", [&] { return taken_over == kRanks; });
    const std::vector<std::string> all = sockets_of(job);
    const auto later = std::ranges::find_if(
        all, [&](const std::string& each) { return comm_of(each) != comm_of(first.front()); });
    ASSERT_NE(later, all.end());
    ask(*later, "drain back:7 lo@" + at + " host1\n");
  });
}

}  // namespace
}  // namespace job
