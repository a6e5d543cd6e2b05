#include "tools/bench/bench_comm.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace r2ccl::tools {
namespace {

Status to_status(const char* call, r2cclResult_t result, r2cclComm_t comm) {
  if (result == r2cclSuccess) return Status::ok_status();
  const char* detail = r2cclGetLastError(comm);
  std::string text = std::string(call) + ": " + r2cclGetErrorString(result);
  if (detail != nullptr && *detail != '\0') text += std::string(": ") + detail;
  return {static_cast<Code>(result), text};
}

constexpr int kTag = 1;  // of tagged messages

}  // namespace

Result<BenchComm> BenchComm::from_environment() {
  r2cclComm_t comm = nullptr;
  R2CCL_RETURN_IF_ERROR(to_status("r2cclCommInitEnv", r2cclCommInitEnv(&comm, nullptr), nullptr));
  int rank = 0, ranks = 0;
  R2CCL_RETURN_IF_ERROR(to_status("r2cclCommUserRank", r2cclCommUserRank(comm, &rank), comm));
  R2CCL_RETURN_IF_ERROR(to_status("r2cclCommCount", r2cclCommCount(comm, &ranks), comm));
  return BenchComm(comm, rank, ranks);
}

BenchComm::BenchComm(BenchComm&& other) noexcept
    : comm_(std::exchange(other.comm_, nullptr)), rank_(other.rank_), ranks_(other.ranks_) {}

BenchComm::~BenchComm() {
  if (comm_ == nullptr) return;
  r2cclCommAbort(comm_);
  r2cclCommDestroy(comm_);
}

Status BenchComm::check(const char* call, r2cclResult_t result) const {
  return to_status(call, result, comm_);
}

Status BenchComm::run(const BenchOptions& options, const void* in, void* out, size_t count) {
  const size_t part = count / static_cast<size_t>(ranks_);
  const r2cclDataType_t type = options.type;
  switch (options.collective) {
    case Collective::all_reduce:
      return check("r2cclAllReduce",
                   r2cclAllReduce(in, out, count, type, options.redop, comm_, nullptr));
    case Collective::reduce:
      return check("r2cclReduce",
                   r2cclReduce(in, out, count, type, options.redop, options.root, comm_, nullptr));
    case Collective::broadcast:
      return check("r2cclBroadcast",
                   r2cclBroadcast(in, out, count, type, options.root, comm_, nullptr));
    case Collective::all_gather:
      return check("r2cclAllGather", r2cclAllGather(in, out, part, type, comm_, nullptr));
    case Collective::reduce_scatter:
      return check("r2cclReduceScatter",
                   r2cclReduceScatter(in, out, part, type, options.redop, comm_, nullptr));
    case Collective::gather:
      return check("r2cclGather", r2cclGather(in, out, part, type, options.root, comm_, nullptr));
    case Collective::scatter:
      return check("r2cclScatter", r2cclScatter(in, out, part, type, options.root, comm_, nullptr));
    case Collective::alltoall:
      return check("r2cclAllToAll", r2cclAllToAll(in, out, part, type, comm_, nullptr));
    case Collective::sendrecv:
    case Collective::tagged:
      return send_receive(options, in, out, count);
    case Collective::barrier:
      return barrier();
  }
  return Status::ok_status();
}

Status BenchComm::send_receive(const BenchOptions& options, const void* in, void* out,
                               size_t count) {
  int next_rank = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
  r2cclRequest_t receive = nullptr, send = nullptr;
  const bool tagged = options.collective == Collective::tagged;
  R2CCL_RETURN_IF_ERROR(check(
      "r2cclRecv",
      tagged ? r2cclRecvTagged(out, count, options.type, previous, kTag, nullptr, comm_, &receive)
             : r2cclRecv(out, count, options.type, previous, comm_, &receive)));
  r2cclResult_t started =
      tagged ? r2cclSendTagged(in, count, options.type, next_rank, kTag, comm_, &send)
             : r2cclSend(in, count, options.type, next_rank, comm_, &send);
  if (started != r2cclSuccess) {
    r2cclRequestAbort(&receive);
    return check("r2cclSend", started);
  }
  r2cclResult_t sent = r2cclRequestWait(&send, -1);
  r2cclResult_t received = r2cclRequestWait(&receive, -1);
  R2CCL_RETURN_IF_ERROR(check("r2cclSend", sent));
  return check("r2cclRecv", received);
}

Status BenchComm::barrier() {
  return check("r2cclBarrier", r2cclBarrier(comm_, nullptr));
}

Status BenchComm::agree_on_max(std::vector<int64_t>* values) {
  return check("r2cclAllReduce", r2cclAllReduce(values->data(), values->data(), values->size(),
                                                r2cclInt64, r2cclMax, comm_, nullptr));
}

Status BenchComm::agree_on_sum(std::vector<int64_t>* values) {
  return check("r2cclAllReduce", r2cclAllReduce(values->data(), values->data(), values->size(),
                                                r2cclInt64, r2cclSum, comm_, nullptr));
}

// Each rank's share has its size first, and is as long as the longest.
Result<std::vector<std::string>> BenchComm::gather(const std::string& text) {
  std::vector<int64_t> longest = {static_cast<int64_t>(text.size())};
  R2CCL_RETURN_IF_ERROR(agree_on_max(&longest));
  const size_t share = sizeof(int64_t) + static_cast<size_t>(longest.front());
  std::vector<char> mine(share);
  const auto size = static_cast<int64_t>(text.size());
  std::memcpy(mine.data(), &size, sizeof size);
  std::ranges::copy(text, mine.begin() + sizeof size);
  std::vector<char> all(rank_ == 0 ? share * static_cast<size_t>(ranks_) : 0);
  R2CCL_RETURN_IF_ERROR(check(
      "r2cclGather", r2cclGather(mine.data(), all.data(), share, r2cclInt8, 0, comm_, nullptr)));
  std::vector<std::string> texts;
  for (const char* at = all.data(); at < all.data() + all.size(); at += share) {
    int64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    texts.emplace_back(at + sizeof bytes, static_cast<size_t>(bytes));
  }
  return texts;
}

std::string BenchComm::report() const {
  // The text may grow between the question and the answer.
  std::string text;
  size_t bytes = 0;
  if (r2cclCommReport(comm_, nullptr, &bytes) != r2cclSuccess) return "";
  for (int attempt = 0; attempt < 4; ++attempt) {
    bytes += 1024;
    text.resize(bytes);
    size_t room = bytes;
    if (r2cclCommReport(comm_, text.data(), &bytes) != r2cclSuccess) return "";
    if (bytes > room) continue;
    text.resize(bytes > 0 ? bytes - 1 : 0);
    return text;
  }
  return "";
}

Status BenchComm::finish() {
  r2cclComm_t comm = std::exchange(comm_, nullptr);
  Status finalized = to_status("r2cclCommFinalize", r2cclCommFinalize(comm), comm);
  Status destroyed = to_status("r2cclCommDestroy", r2cclCommDestroy(comm), nullptr);
  return finalized.ok() ? destroyed : finalized;
}

}  // namespace r2ccl::tools
