// Communicators from new unique ids, of processes that have a job already.
#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace job {
namespace {

// A unique id that one rank makes for all.
class SharedId {
 public:
  void make() {
    r2cclUniqueId id{};
    check(r2cclGetUniqueId(&id), "id");
    promise_.set_value(id);
  }
  r2cclUniqueId get() const { return future_.get(); }

 private:
  std::promise<r2cclUniqueId> promise_;
  std::shared_future<r2cclUniqueId> future_ = promise_.get_future().share();
};

r2cclComm_t meet(const SharedId& shared, const std::vector<int>& members, int own,
                 const r2cclConfig_t* config = nullptr) {
  const auto place = std::ranges::find(members, own) - members.begin();
  r2cclComm_t made = nullptr;
  check(r2cclCommInitRankConfig(&made, static_cast<int>(members.size()), shared.get(),
                                static_cast<int>(place), config),
        "meeting again");
  return made;
}

// All connections that the ranks of a communicator may have.
void use_all_links(const Comm& comm) {
  const auto ranks = static_cast<size_t>(comm.ranks());
  std::vector<int32_t> data(2 * ranks * 50'000);
  check(r2cclAllToAll(data.data(), data.data() + ranks * 50'000, 50'000, r2cclInt32, comm.handle(),
                      nullptr),
        "all connections for data");
}

// The sockets of a meeting close soon after it.
size_t tcp_sockets_at_most(size_t bound) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  size_t count = tcp_sockets();
  while (count > bound && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    count = tcp_sockets();
  }
  return count;
}

TEST(MeetAgain, UsesTheConnectionsThatAreThere) {
  Job job(3);
  SharedId first;
  SharedId second;
  job.run({[&](Comm& comm) {
    use_all_links(comm);
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    const size_t before = tcp_sockets();
    check(r2cclBarrier(comm.handle(), nullptr), "counted");
    if (comm.rank() == 0) first.make();
    if (comm.rank() == 2) second.make();
    r2cclComm_t all = meet(first, {2, 0, 1}, comm.rank());
    r2cclComm_t two = comm.rank() != 1 ? meet(second, {2, 0}, comm.rank()) : nullptr;
    expect_sum(all, comm.rank(), {2, 0, 1});
    if (two != nullptr) expect_sum(two, comm.rank(), {2, 0});
    EXPECT_LE(tcp_sockets_at_most(before), before);
    check(r2cclBarrier(comm.handle(), nullptr), "counted again");
    // The first one ends first.
    check(comm.destroy(), "destroy");
    expect_sum(all, comm.rank(), {2, 0, 1});
    if (two != nullptr) check(r2cclCommDestroy(two), "destroy");
    check(r2cclCommDestroy(all), "destroy");
  }});
}

// The job lives on in the last communicator that has come from it.
TEST(MeetAgain, DoesNotNeedTheFirstCommunicator) {
  Job job(3);
  SharedId id;
  job.run({[&](Comm& comm) {
    r2cclComm_t child = nullptr;
    check(r2cclCommDup(comm.handle(), &child, nullptr), "dup");
    use_all_links(comm);
    check(comm.destroy(), "destroy");
    check(r2cclBarrier(child, nullptr), "barrier");
    const size_t before = tcp_sockets();
    check(r2cclBarrier(child, nullptr), "counted");
    if (comm.rank() == 1) id.make();
    r2cclComm_t again = meet(id, {0, 1, 2}, comm.rank());
    EXPECT_LE(tcp_sockets_at_most(before), before);
    check(r2cclCommDestroy(child), "destroy");
    expect_sum(again, comm.rank(), {0, 1, 2});
    check(r2cclCommDestroy(again), "destroy");
  }});
}

TEST(MeetAgain, GoesOnAfterAnAbort) {
  Job job(3);
  SharedId id;
  job.run({[&](Comm& comm) {
    use_all_links(comm);
    check(r2cclBarrier(comm.handle(), nullptr), "barrier");
    const size_t before = tcp_sockets();
    (void)r2cclBarrier(comm.handle(), nullptr);  // a rank that aborts after it may end it here
    if (comm.rank() == 0) check(r2cclCommAbort(comm.handle()), "abort");
    if (comm.rank() == 0) id.make();
    r2cclComm_t again = meet(id, {0, 1, 2}, comm.rank());
    expect_sum(again, comm.rank(), {0, 1, 2});
    EXPECT_LE(tcp_sockets_at_most(before), before);
    check(r2cclCommDestroy(again), "destroy");
    comm.abort();
  }});
}

// One rank has left the job before: then none of them may use its connections.
TEST(MeetAgain, MakesConnectionsWhereARankHasNone) {
  Job job(3);
  SharedId id;
  job.run({[&](Comm& comm) {
    if (comm.rank() == 0) comm.abort();
    if (comm.rank() == 1) id.make();
    r2cclComm_t again = meet(id, {0, 1, 2}, comm.rank());
    expect_sum(again, comm.rank(), {0, 1, 2});
    check(r2cclCommDestroy(again), "destroy");
    comm.abort();
  }});
}

TEST(MeetAgain, MakesConnectionsForOtherSettings) {
  Job job(2);
  SharedId id;
  job.run({[&](Comm& comm) {
    r2cclConfig_t config = R2CCL_CONFIG_INITIALIZER;
    config.cutoff_ms = 123'456;
    if (comm.rank() == 0) id.make();
    r2cclComm_t again = meet(id, {1, 0}, comm.rank(), comm.rank() == 0 ? &config : nullptr);
    expect_sum(again, comm.rank(), {1, 0});
    check(comm.destroy(), "destroy");
    expect_sum(again, comm.rank(), {1, 0});
    check(r2cclCommDestroy(again), "destroy");
  }});
}

// A rank destroys its last communicator of the job while it meets the others: the job waits for the
// end of the meeting.
TEST(MeetAgain, HoldsTheJobMeanwhile) {
  Job job(2);
  SharedId id;
  job.run({[&](Comm& comm) {
    std::jthread leaver;
    if (comm.rank() == 0) {
      leaver = std::jthread([&] { EXPECT_EQ(comm.destroy(), r2cclSuccess); });
      id.make();
    }
    r2cclComm_t again = meet(id, {0, 1}, comm.rank());
    comm.rank() == 0 ? leaver.join() : check(comm.destroy(), "destroy");
    expect_sum(again, comm.rank(), {0, 1});
    check(r2cclCommDestroy(again), "destroy");
  }});
}

}  // namespace
}  // namespace job
