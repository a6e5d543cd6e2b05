// One rank's communicator: the engine with its thread, the executors on it, and what the C API
// does. The public functions may be called from any thread; the work happens in the progress
// thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "runtime/admin/drains.h"
#include "runtime/admin/job_survey.h"
#include "runtime/admin/rank_summary.h"
#include "runtime/admin/status_server.h"
#include "runtime/bootstrap/rendezvous_client.h"
#include "runtime/collective/call_audit.h"
#include "runtime/collective/executor.h"
#include "runtime/collective/point_to_point.h"
#include "runtime/collective/request.h"
#include "runtime/collective/wait_tracker.h"
#include "runtime/config/config.h"
#include "runtime/diagnosis/incidents.h"
#include "runtime/engine/progress_engine.h"
#include "runtime/failure_notice.h"
#include "runtime/link/user_memory.h"
#include "transport/transport.h"

namespace r2ccl {

struct CommunicatorOptions {
  Rank self;
  int32_t rank_count = 0;
  JobIdentity job;
  std::vector<Endpoint> rendezvous;
  Config config;
  uint32_t library_version = 0;     // R2CCL_VERSION_CODE, which only the API's edge knows
  DrainBook* drain_book = nullptr;  // of the process; must outlive the communicator
};

class Communicator final : private EngineObserver, private StatusSource {
 public:
  // Meets the other ranks and connects to all of them; blocks.
  static Result<std::unique_ptr<Communicator>> create(std::unique_ptr<Transport> transport,
                                                      const CommunicatorOptions& options);
  // Ends the progress thread. Call finalize() or abort() before.
  ~Communicator() override;

  Rank rank() const { return options_.self; }
  int32_t rank_count() const { return options_.rank_count; }

  // `bad`: memory of the buffers that cannot be touched. Then the communicator fails, and the
  // request with it: this rank cannot do its part, and the others must not wait for it.
  using MaybeBad = std::optional<BadMemory>;
  std::shared_ptr<Request> all_reduce(const std::byte* input, std::byte* output, uint64_t count,
                                      DataType type, ReduceOp op, const MaybeBad& bad);
  std::shared_ptr<Request> broadcast(const std::byte* input, std::byte* output, uint64_t count,
                                     DataType type, Rank root, const MaybeBad& bad);
  std::shared_ptr<Request> barrier();
  std::shared_ptr<Request> send(const std::byte* bytes, uint64_t count, DataType type, Rank peer,
                                const MaybeBad& bad);
  std::shared_ptr<Request> receive(std::byte* bytes, uint64_t count, DataType type, Rank peer,
                                   const MaybeBad& bad);

  // Waits for all operations and for the goodbye of every rank, no longer than for a cut-off host.
  Status finalize();
  // On return no buffer is touched any more.
  void abort(const std::string& why);
  // Ok, or what ended the communicator.
  Status failure() const;
  // The JSON text of r2cclCommReport.
  std::string report();

 private:
  Communicator(std::unique_ptr<Transport> transport, const CommunicatorOptions& options);
  Status connect();
  // The result of finalize: calls that do not match are no failure of another rank.
  Status finalize_result();
  Result<RankCard> describe_self() const;
  RendezvousClient::Options meeting_options(RankCard card) const;
  void tell_obstacle(const Status& obstacle, RankCard card);
  void start_thread();
  void run();
  void run_once(std::vector<bool>& ended);

  std::shared_ptr<Request> collective(const PlanKey& key, const std::byte* input, std::byte* output,
                                      const MaybeBad& bad);
  // Runs `work`, which starts the operation of its argument, in the progress thread.
  std::shared_ptr<Request> start(const PendingCall& what,
                                 std::function<void(const std::shared_ptr<Request>&)> work);
  PlanKey plan_key(Collective what, uint64_t count, DataType type) const;
  // Runs `work` in the progress thread and waits until it has.
  void call(const std::function<void()>& work);
  // Waits until `done` holds in the progress thread.
  bool wait_until(const std::function<bool()>& done, TimeNs timeout);

  // Progress thread only.
  std::string who(Rank rank) const;
  void complete(const std::shared_ptr<Request>& request, const Status& status);
  void write_report(class JsonWriter& out);
  void write_identity(class JsonWriter& out);
  void write_verdicts(class JsonWriter& out, size_t count_max) const;

  // communicator_notices.cc
  void fail(const Status& why);
  void fail_departed(const std::string& text);
  void on_failure(Rank peer, std::span<const std::byte> body);
  // False when it has failed before.
  bool fail_here(const Status& why);
  void tell_failure(const Failure& failure);
  // Any thread but the progress thread: until all others know of the failure.
  void wait_for_news(TimeNs bound);
  void check_departed();
  void refuse_buffer(const BufferUse& use, const BadMemory& bad,
                     const std::shared_ptr<Request>& request);
  void fail_by_exception(const std::exception& error);
  void cancel_operations();
  CallAudit::Callbacks audit_callbacks();
  void on_calls(Rank peer, std::span<const std::byte> body);

  // communicator_log.cc
  void log_begin() const;
  void log_nics() const;
  void log_start() const;

  // communicator_waits.cc
  WaitTracker::Callbacks wait_callbacks();
  void send_calls(Rank peer, CallReport report);
  void progress_waits();
  std::string words_for(const Blocker& blocker) const;
  std::string waiting_text(const PendingCall& call,
                           const std::vector<WaitTracker::Waiting>& calls) const;
  void write_in_flight(class JsonWriter& out);
  void add_waits(RankSummary& summary);

  // communicator_status.cc
  void open_status();
  void progress_status();
  RankSummary summarize();
  std::string member_text(Rank rank, Presence presence, const RankSummary* summary) const;
  Presence ask(Rank rank, uint32_t number);
  void on_status_request(Rank peer, std::span<const std::byte> body);
  void on_status(Rank peer, std::span<const std::byte> body);
  // StatusSource
  std::string status_report() override;
  std::optional<std::string> job_status() override;
  std::optional<std::string> drain_status(uint64_t asker, std::string_view line) override {
    return drains_->answer(asker, line);
  }

  // EngineObserver
  void on_path_event(const PathEvent& event) override;
  void on_notice(Rank peer, std::span<const std::byte> bytes) override;
  void on_peer_end(Rank peer, PeerEnd end, const std::string& why) override;
  void on_bad_memory(const BadMemory& bad) override;
  void on_contradiction(Rank peer, const std::string& why) override;

  const CommunicatorOptions options_;
  std::unique_ptr<Transport> transport_;
  SystemClock clock_;
  std::unique_ptr<ProgressEngine> engine_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<PointToPoint> point_to_point_;
  std::unique_ptr<CallAudit> audit_;
  std::unique_ptr<WaitTracker> waits_;
  const std::shared_ptr<AwaitedRequests> awaited_;
  uint64_t awaited_seen_ = 0;  // of its changes
  bool waits_told_ = true;     // the awaited requests have the latest texts
  std::unique_ptr<Incidents> incidents_;
  std::unique_ptr<Drains> drains_;
  std::vector<bool> departed_;  // ranks that said goodbye
  std::vector<bool> informed_;  // ranks that said that the job has failed
  std::vector<bool> dead_;      // ranks that ended otherwise
  bool finalizing_ = false;
  bool cancel_due_ = false;  // after a failure, some operation may not have ended yet
  bool abandoned_ = false;   // it failed because a rank left while another waited for it
  TimeNs started_at_ = 0;
  uint64_t comm_id_ = 0;      // tells communicators apart; the same on all ranks, and public
  uint64_t operations_ = 0;   // that ended well
  uint64_t collectives_ = 0;  // that were started
  JobSurvey survey_;
  std::unique_ptr<StatusServer> status_server_;

  mutable std::mutex failure_mutex_;  // guards failure_
  Status failure_;

  std::atomic<bool> stop_{false};  // set by the destructor, read by the thread after a wake
  std::thread thread_;
};

}  // namespace r2ccl
