// The C edge: groups of calls.
#include "api/group.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/calls.h"
#include "api/errors.h"
#include "runtime/collective/request.h"

namespace r2ccl::api {
namespace {

struct Member {
  const char* function = nullptr;
  size_t number = 0;  // among the calls of the group, from 1
  std::weak_ptr<CommObject> comm;
  r2cclRequest_t* request = nullptr;
  Operation operation;
};

struct Group {
  size_t depth = 0;  // r2cclGroupStart without its r2cclGroupEnd
  size_t calls = 0;
  std::vector<Member> members;
  Status failed;  // the first call that failed
};

// The open group of the thread; null: it has none. It is no object of the thread with a destructor:
// the C library ends the process when it has no memory to note one.
thread_local Group* open_group = nullptr;

std::string name_of(size_t number, const char* function) {
  return "call " + std::to_string(number) + " of the group (" + function + ")";
}

// A member on its way: its handle exists before any member starts.
struct Launch {
  Member member;
  std::shared_ptr<CommObject> comm;
  std::shared_ptr<RequestObject> object;  // null: the call blocks
  r2cclRequest_t handle = nullptr;
  std::shared_ptr<Request> request;
};

// The communicator may have ended since the call.
Status check_member(const Member& member, std::shared_ptr<CommObject>* comm) {
  *comm = member.comm.lock();
  if (*comm == nullptr) {
    return {Code::invalid_usage, "its communicator was destroyed inside the group"};
  }
  if ((*comm)->inherited()) return from_parent("r2cclGroupEnd", "communicator");
  return check_open("r2cclGroupEnd", comm->get());
}

Status prepare(std::vector<Member> members, std::vector<Launch>* launches) {
  launches->reserve(members.size());
  for (Member& member : members) {
    std::shared_ptr<CommObject> comm;
    if (const Status ready = check_member(member, &comm); !ready.ok()) {
      return ready.with_context(name_of(member.number, member.function) +
                                " cannot start, so no call of the group did");
    }
    Launch& launch = launches->emplace_back();
    launch.member = std::move(member);
    launch.comm = std::move(comm);
    if (launch.member.request == nullptr) continue;
    launch.object = std::make_shared<RequestObject>();
    launch.object->comm = launch.comm;
    launch.handle = requests().add(launch.object);
  }
  return {};
}

// Ends the handles that the caller never got.
void take_back(const std::vector<Launch>& launches) {
  for (const Launch& launch : launches) {
    if (launch.handle != nullptr) (void)requests().take(launch.handle);
  }
}

void start_all(std::vector<Launch>& launches) {
  for (Launch& launch : launches) {
    launch.request = launch.comm->communicator->start(std::move(launch.member.operation));
    if (launch.object != nullptr) launch.object->request = launch.request;
  }
}

// Ends the communicators of the members that have started: the others will never follow, so no rank
// may wait for the rest of the group.
void abort_started(const std::vector<Launch>& launches) {
  for (const Launch& launch : launches) {
    if (launch.request == nullptr) return;
    if (launch.comm->communicator->failure().ok()) {
      launch.comm->communicator->abort("r2cclGroupEnd could start a part of its calls only");
    }
  }
}

// Nothing may fail from here on before the caller has its requests.
void hand_out(const std::vector<Launch>& launches) {
  const CommObject* handed = nullptr;
  for (const Launch& launch : launches) {
    if (launch.handle == nullptr) continue;
    *launch.member.request = launch.handle;
    if (std::exchange(handed, launch.comm.get()) == launch.comm.get()) continue;
    launch.comm->communicator->hand_over();
  }
}

// Returns the first error, in the order of the calls.
Status wait_for_blocking(const std::vector<Launch>& launches) {
  const Launch* failed = nullptr;
  for (const Launch& launch : launches) {
    if (launch.handle != nullptr) continue;
    (void)launch.request->wait(kNever);
    if (failed == nullptr && !launch.request->status().ok()) failed = &launch;
  }
  // All have ended before anything may fail: none uses its buffers any more.
  if (failed == nullptr) return {};
  const Member& member = failed->member;
  return failed->request->status().with_context(name_of(member.number, member.function));
}

Status failure_of_call(size_t number, const char* function) noexcept {
  try {
    const KeptError& last = last_error();
    std::vector<Rank> ranks;
    for (size_t i = 0; i < std::min(last.rank_count, last.ranks.size()); ++i) {
      ranks.emplace_back(last.ranks[i]);
    }
    const Status failed(last.code, last.text.data());
    return failed.with_ranks(std::move(ranks))
        .with_context(name_of(number, function) + " failed, so the group starts none of its calls");
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory(last_error().code);
  }
}

Status run(std::vector<Member> members) {
  std::vector<Launch> launches;
  try {
    const Status ready = prepare(std::move(members), &launches);
    if (!ready.ok()) {
      take_back(launches);
      return ready;
    }
    start_all(launches);
  } catch (...) {
    take_back(launches);
    abort_started(launches);
    throw;
  }
  hand_out(launches);
  return wait_for_blocking(launches);
}

}  // namespace

bool in_group() noexcept {
  return open_group != nullptr;
}

Status check_outside_group(const std::string& function) {
  if (!in_group()) return {};
  return {Code::invalid_usage,
          function + ": it cannot be called between r2cclGroupStart and r2cclGroupEnd"};
}

void add_to_group(const char* function, CommObject& comm, r2cclRequest_t* request,
                  Operation operation) {
  Group& mine = *open_group;
  if (!mine.failed.ok()) return;  // the group starts nothing any more
  mine.members.push_back(
      {function, mine.calls + 1, comm.weak_from_this(), request, std::move(operation)});
}

r2cclResult_t note_in_group(const char* function, r2cclResult_t result) noexcept {
  Group& mine = *open_group;
  ++mine.calls;
  if (result == r2cclSuccess || !mine.failed.ok()) return result;
  mine.failed = failure_of_call(mine.calls, function);
  mine.members.clear();
  return result;
}

}  // namespace r2ccl::api

extern "C" {

r2cclResult_t r2cclGroupStart(void) {
  using namespace r2ccl::api;
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (open_group == nullptr) open_group = new Group;
    ++open_group->depth;
    return r2cclSuccess;
  });
}

r2cclResult_t r2cclGroupEnd(void) {
  using namespace r2ccl::api;
  return guarded(__func__, [&]() -> r2cclResult_t {
    if (open_group == nullptr) {
      return error(r2ccl::Code::invalid_usage,
                   "r2cclGroupEnd: this thread has no open group; r2cclGroupStart opens one");
    }
    if (--open_group->depth > 0) {
      return result_of(open_group->failed.with_context("r2cclGroupEnd"));
    }
    const std::unique_ptr<Group> ended(std::exchange(open_group, nullptr));
    if (!ended->failed.ok()) return result_of(ended->failed.with_context("r2cclGroupEnd"));
    return result_of(run(std::move(ended->members)).with_context("r2cclGroupEnd"));
  });
}

}  // extern "C"
