#include "job.h"

#include <fstream>
#include <thread>
#include <utility>

namespace nccl {

const Functions& functions() {
  static const Functions instance;
  return instance;
}

}  // namespace nccl

namespace driver {
namespace {

using nccl::functions;
using nccl::Result;

// Rank 0 makes the id; the others wait for its file, which appears complete.
nccl::UniqueId exchange_id(const Job& job, int number) {
  const std::string path = job.folder + "/id." + std::to_string(number);
  nccl::UniqueId id{};
  if (job.rank == 0) {
    check(functions().get_unique_id(&id), "ncclGetUniqueId");
    const std::string incomplete = path + ".incomplete";
    std::ofstream(incomplete, std::ios::binary).write(id.bytes.data(), id.bytes.size());
    if (std::rename(incomplete.c_str(), path.c_str()) != 0) throw Broken("cannot write " + path);
    return id;
  }
  const auto deadline = Clock::now() + job.patience;
  for (;;) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(id.bytes.data(), id.bytes.size())) return id;
    if (Clock::now() > deadline) throw Broken("rank 0 has written no " + path);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Returns a number of 32 mixed bits (the finalizer of MurmurHash3).
uint32_t mix(size_t element, uint32_t round) {
  uint32_t bits = static_cast<uint32_t>(element) * 0x9e3779b1u + round * 0x7feb352du + 1;
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

}  // namespace

// A rank multiplies the mixed bits by its own odd number, so that the sum has a closed form.
uint32_t value(int rank, size_t element, uint32_t round) {
  const auto number = static_cast<uint32_t>(rank);
  return mix(element, round) * (2 * number + 1) + number;
}

uint32_t sum_of_values(int ranks, size_t element, uint32_t round) {
  const auto count = static_cast<uint32_t>(ranks);
  // 1 + 3 + 5 ... is a square, and 0 + 1 + 2 ... a triangle.
  return mix(element, round) * (count * count) + count * (count - 1) / 2;
}

std::string text_of(Result result) {
  return functions().get_error_string(result);
}

void check(Result result, const std::string& what) {
  if (result == Result::kSuccess) return;
  throw Broken(what + ": " + text_of(result) + ": " + functions().get_last_error(nullptr));
}

Communicator::Communicator(const Job& job, int number) {
  const nccl::UniqueId id = exchange_id(job, number);
  check(functions().comm_init_rank(&handle_, job.ranks, id, job.rank), "ncclCommInitRank");
}

Communicator::Communicator(const Communicator& parent, int color, int key) {
  check(functions().comm_split(parent.handle(), color, key, &handle_, nullptr), "ncclCommSplit");
}

Communicator::~Communicator() {
  if (handle_ != nullptr) abort();
}

int Communicator::rank() const {
  int rank = 0;
  check(functions().comm_user_rank(handle_, &rank), "ncclCommUserRank");
  return rank;
}

int Communicator::ranks() const {
  int ranks = 0;
  check(functions().comm_count(handle_, &ranks), "ncclCommCount");
  return ranks;
}

Result Communicator::async_error() const {
  Result error = Result::kSuccess;
  check(functions().comm_get_async_error(handle_, &error), "ncclCommGetAsyncError");
  return error;
}

void Communicator::wait(const Stream& stream, std::chrono::seconds patience) const {
  constexpr int kYields = 50, kPollsOfErrors = 64;
  const auto deadline = Clock::now() + patience;
  for (int polls = 1; !stream.is_idle(); ++polls) {
    if (polls % kPollsOfErrors == 0) {
      check(async_error(), "an operation");
      if (Clock::now() > deadline) throw Broken("an operation does not end");
    }
    if (polls <= kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

void Communicator::destroy() {
  const nccl::Comm handle = std::exchange(handle_, nullptr);
  check(functions().comm_finalize(handle), "ncclCommFinalize");
  check(functions().comm_destroy(handle), "ncclCommDestroy");
}

void Communicator::abort() {
  functions().comm_abort(std::exchange(handle_, nullptr));
}

void Checks::expect(bool holds, const std::string& what) {
  ++made_;
  if (holds) return;
  ++failed_;
  std::printf("rank %d: FAIL: %s\n", rank_, what.c_str());
  std::fflush(stdout);
}

}  // namespace driver
