#include "sim/cluster/mixed_job.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sim/cluster/operation_values.h"

namespace r2ccl::sim {
namespace {

constexpr std::byte kGrave{0xdb};
constexpr uint64_t kGraveBytesMax = 8 * 1024 * 1024;
constexpr size_t kExpectedMax = 8;
// The late rank of a run_ahead begins this much later. Meanwhile even the slowest NIC carries the
// whole run.
constexpr TimeNs kLate = 400 * kMillisecond;

using Kind = OperationSpec::Kind;

// Compares each byte with the one before it, because memcmp is faster than a loop.
bool all_grave(const std::vector<std::byte>& memory) {
  return memory.empty() || (memory[0] == kGrave &&
                            std::memcmp(memory.data(), memory.data() + 1, memory.size() - 1) == 0);
}

bool exchange(const OperationSpec& o) {
  return o.kind == Kind::shift || o.kind == Kind::send_to_all;
}

// Returns whether an operation has a result on this rank.
bool has_result(const OperationSpec& o, int rank, int ranks) {
  const bool ahead = o.kind == Kind::run_ahead || o.kind == Kind::tagged_ahead;
  return !ahead || o.in_place || rank == (o.root + 1) % ranks;
}

}  // namespace

MixedJob::MixedJob(Cluster& cluster, const Scenario& scenario)
    : cluster_(cluster), scenario_(scenario), random_(scenario.seed + 77) {
  members_.resize(static_cast<size_t>(cluster.size() * scenario.communicators));
  left_out_.resize(static_cast<size_t>(cluster.size()));
  left_of_.resize(static_cast<size_t>(cluster.size()), scenario_.operations.size());
  for (int rank = 0; rank < cluster.size(); ++rank) {
    for (size_t i = 0; i < scenario_.operations.size(); ++i) {
      member(rank, scenario_.operations[i].communicator).operations.push_back(i);
      ++left_;
    }
  }
}

MixedJob::~MixedJob() {
  for (const auto& call : calls_) {
    cluster_.check().forget(call->buffers.input);
    cluster_.check().forget(call->buffers.output);
  }
  inspect_buffers();
}

void MixedJob::start() {
  for (int rank = 0; rank < cluster_.size(); ++rank) {
    for (int c = 0; c < scenario_.communicators; ++c) advance(rank, c);
  }
  cluster_.wake_all();
}

void MixedJob::leave_out(int rank) {
  if (left_out_[static_cast<size_t>(rank)]) return;
  left_out_[static_cast<size_t>(rank)] = true;
  left_ -= left_of_[static_cast<size_t>(rank)];
}

// Starts the operations that the depth of the scenario allows, each after a random pause.
void MixedJob::advance(int rank, int communicator) {
  Member& one = member(rank, communicator);
  if (left_out_[static_cast<size_t>(rank)] || one.thinking) return;
  if (one.next == one.operations.size()) return;
  if (one.running == static_cast<size_t>(scenario_.depth)) return;
  one.thinking = true;
  const auto pause = static_cast<TimeNs>(random_.below(static_cast<uint64_t>(scenario_.think_max)));
  cluster_.fabric().at(cluster_.now() + pause, [this, rank, communicator] {
    Member& woken = member(rank, communicator);
    woken.thinking = false;
    if (left_out_[static_cast<size_t>(rank)]) return;
    ++woken.running;
    begin(rank, woken.operations[woken.next++]);
    cluster_.node(rank).host->poller().wake();
    advance(rank, communicator);
  });
}

void MixedJob::begin(int rank, size_t operation) {
  calls_.push_back(std::make_unique<Call>());
  Call& call = *calls_.back();
  call.operation = operation;
  call.began = cluster_.now();
  const OperationSpec& spec = scenario_.operations[operation];
  const size_t size = size_of(spec.type);
  call.memory = memory_of(spec, rank, cluster_.size());
  const OperationMemory& memory = call.memory;
  if (memory.in_place) {
    call.buffers.input.assign(memory.memory_count() * size, kUnset);
  } else {
    call.buffers.input.resize(memory.input_count * size);
    call.buffers.output.assign(memory.output_count * size, kUnset);
  }
  fill_input(
      spec, operation, rank,
      std::span(call.buffers.input).subspan(memory.input_at * size, memory.input_count * size));
  if (!memory.in_place) call.buffers.before = call.buffers.input;
  if (spec.kind == Kind::run_ahead || spec.kind == Kind::tagged_ahead) {
    return begin_run_ahead(rank, call);
  }
  if (spec.kind == Kind::tagged) return begin_tagged(rank, call);
  exchange(spec) ? begin_exchange(rank, call) : begin_collective(rank, call);
}

void MixedJob::begin_run_ahead(int rank, Call& call) {
  const OperationSpec& spec = scenario_.operations[call.operation];
  call.parts_left = spec.count;
  if (rank == spec.root) return begin_run(rank, call);
  if (!has_result(spec, rank, cluster_.size())) {
    call.parts_left = 1;
    return part_ended(rank, call, {});
  }
  // Calls keep their order: the next operation must wait for the late one to begin.
  member(rank, spec.communicator).thinking = true;
  cluster_.fabric().at(cluster_.now() + kLate,
                       [this, rank, communicator = spec.communicator, &call] {
                         if (left_out_[static_cast<size_t>(rank)]) return;
                         begin_run(rank, call);
                         cluster_.node(rank).host->poller().wake();
                         member(rank, communicator).thinking = false;
                         advance(rank, communicator);
                       });
}

// Makes all calls of the run at once. When the last of them ends, `call` is destroyed.
void MixedJob::begin_run(int rank, Call& call) {
  const size_t operation = call.operation;
  const OperationSpec spec = scenario_.operations[operation];
  RankRuntime& runtime = cluster_.node(rank).communicator(spec.communicator);
  const auto done = [this, rank, &call](const Status& status) { part_ended(rank, call, status); };
  const size_t part = size_of(spec.type);
  std::byte* const input = call.buffers.input.data();
  std::byte* const output = call.buffers.output.data();
  for (uint64_t i = 0; i < spec.count; ++i) {
    if (spec.in_place) {
      Operation collective;
      collective.key.collective = Collective::broadcast;
      collective.key.type = spec.type;
      collective.key.rank_count = cluster_.size();
      collective.key.root = Rank(spec.root);
      collective.key.count = 1;
      collective.input = collective.output = input + i * part;
      collective.done = done;
      runtime.start(std::move(collective));
      continue;
    }
    const int to = (rank + 1) % cluster_.size();
    const int32_t tag = tag_of(operation, i);
    if (spec.kind == Kind::tagged_ahead && rank == spec.root) {
      runtime.start(
          Operation::send(Rank(to), {input + i * part, part}, spec.type, done).with_tag(tag));
    } else if (spec.kind == Kind::tagged_ahead) {
      runtime.start(Operation::receive(Rank(spec.root), {output + i * part, part}, spec.type, done)
                        .with_tag(tag));
    } else if (rank == spec.root) {
      runtime.start(Operation::send(Rank(to), {input + i * part, part}, spec.type, done));
    } else {
      runtime.start(
          Operation::receive(Rank(spec.root), {output + i * part, part}, spec.type, done));
    }
  }
}

void MixedJob::begin_collective(int rank, Call& call) {
  const OperationSpec& spec = scenario_.operations[call.operation];
  const size_t size = size_of(spec.type);
  Operation collective;
  collective.key = plan_key_of(spec, rank, cluster_.size());
  std::vector<std::byte>& input = call.buffers.input;
  std::vector<std::byte>& output = call.memory.in_place ? input : call.buffers.output;
  if (!input.empty()) collective.input = input.data() + call.memory.input_at * size;
  if (!output.empty()) collective.output = output.data() + call.memory.output_at * size;
  collective.scalar = scalar_of(spec, call.operation, rank);
  collective.done = [this, rank, &call](const Status& status) { part_ended(rank, call, status); };
  if (collective.key.collective == Collective::all_reduce && cluster_.node(rank).other_call) {
    make_other_call(rank, collective.key);
  }
  cluster_.node(rank).communicator(spec.communicator).start(std::move(collective));
}

// Makes the call of a program whose ranks disagree. Its messages are as long as the messages of the
// other ranks.
void MixedJob::make_other_call(int rank, PlanKey& key) {
  cluster_.node(rank).other_call = false;
  key.op = key.op == ReduceOp::max ? ReduceOp::min : ReduceOp::max;
  failure_expected_ = true;
  calls_differ_ = true;
  cluster_.check().expect_mismatch();
}

void MixedJob::begin_exchange(int rank, Call& call) {
  const OperationSpec& spec = scenario_.operations[call.operation];
  const int size = cluster_.size();
  const int peers = spec.kind == Kind::shift ? 1 : size;
  const size_t part = spec.count * size_of(spec.type);
  const auto done = [this, rank, &call](const Status& status) { part_ended(rank, call, status); };
  RankRuntime& runtime = cluster_.node(rank).communicator(spec.communicator);
  call.parts_left = 2 * static_cast<size_t>(peers);
  for (int step = 1; step <= peers; ++step) {
    const int from = (rank + size - step % size) % size;
    const size_t slot = spec.kind == Kind::shift ? 0 : static_cast<size_t>(from);
    const auto bytes = std::span(call.buffers.output).subspan(slot * part, part);
    runtime.start(Operation::receive(Rank(from), bytes, spec.type, done));
  }
  for (int step = 1; step <= peers; ++step) {
    const int to = (rank + step) % size;
    const size_t slot = spec.kind == Kind::shift ? 0 : static_cast<size_t>(to);
    const auto bytes = std::span(call.buffers.input).subspan(slot * part, part);
    runtime.start(Operation::send(Rank(to), bytes, spec.type, done));
  }
}

void MixedJob::begin_tagged(int rank, Call& call) {
  const size_t operation = call.operation;
  const OperationSpec spec = scenario_.operations[operation];
  const int size = cluster_.size();
  const size_t part = size_of(spec.type);
  const auto messages = static_cast<size_t>(size * kTagged);
  call.parts_left = 2 * messages;
  call.first_left = messages * (kTags - 1) / kTags;
  receive_tagged(rank, call, false);
  RankRuntime& runtime = cluster_.node(rank).communicator(spec.communicator);
  const auto input = std::span(std::as_const(call.buffers.input));
  // When the last part ends, `call` is destroyed.
  for (int i = 0; i < size * kTagged; ++i) {
    const int to = (rank + 1 + i / kTagged) % size;
    const int m = i % kTagged;
    const auto bytes = input.subspan(tagged_at(spec, to, m) * part, tagged_count(spec, m) * part);
    const auto done = [this, rank, &call](const Status& status) { part_ended(rank, call, status); };
    runtime.start(Operation::send(Rank(to), bytes, spec.type, done)
                      .with_tag(tag_of(operation, static_cast<uint64_t>(m))));
  }
}

// Posts the receives of the last tag, or of all others.
void MixedJob::receive_tagged(int rank, Call& call, bool last_tag) {
  const OperationSpec spec = scenario_.operations[call.operation];
  const int size = cluster_.size();
  const size_t part = size_of(spec.type);
  const auto output = std::span(call.buffers.output);
  for (int i = 0; i < size * kTagged; ++i) {
    const int from = (rank + i / kTagged) % size;
    const int m = i % kTagged;
    if ((m % kTags == 0) != last_tag) continue;
    const auto bytes = output.subspan(tagged_at(spec, from, m) * part, spec.count * part);
    const auto received = std::make_shared<size_t>(0);
    const auto done = [this, rank, &call, received,
                       sent = tagged_count(spec, m)](const Status& status) {
      tagged_ended(rank, call, status, *received == sent);
    };
    cluster_.node(rank)
        .communicator(spec.communicator)
        .start(Operation::receive(Rank(from), bytes, spec.type, done)
                   .with_tag(tag_of(call.operation, static_cast<uint64_t>(m)), received.get()));
  }
}

void MixedJob::tagged_ended(int rank, Call& call, const Status& status, bool right_size) {
  if (status.ok() && !right_size) {
    cluster_.check().violated("rank " + std::to_string(rank) +
                              ": a tagged message has another size than was sent");
  }
  const bool begin_last = call.first_left > 0 && --call.first_left == 0;
  if (begin_last && status.ok()) receive_tagged(rank, call, true);
  // After a failure these never begin.
  const auto never = static_cast<size_t>(cluster_.size() * kTagged / kTags);
  for (size_t i = 0; begin_last && !status.ok() && i < never; ++i) part_ended(rank, call, status);
  part_ended(rank, call, status);
}

void MixedJob::part_ended(int rank, Call& call, const Status& status) {
  if (!status.ok()) {
    if (!failure_expected_) {
      cluster_.check().violated("rank " + std::to_string(rank) + ": " +
                                describe(scenario_.operations[call.operation]) +
                                " failed: " + status.message());
    }
    call.failed = true;
  }
  if (--call.parts_left == 0) end(rank, call);
}

void MixedJob::end(int rank, Call& call) {
  ++ended_;
  spans_.push_back({rank, call.operation, call.began, cluster_.now(), !call.failed});
  if (!call.failed) verify(rank, call);
  Member& one = member(rank, scenario_.operations[call.operation].communicator);
  --one.running;
  --left_of_[static_cast<size_t>(rank)];
  if (!left_out_[static_cast<size_t>(rank)]) --left_;
  const int communicator = scenario_.operations[call.operation].communicator;
  retire(std::move(call.buffers));
  std::erase_if(calls_, [&](const auto& each) { return each.get() == &call; });
  advance(rank, communicator);
}

void MixedJob::verify(int rank, const Call& call) {
  const OperationSpec& spec = scenario_.operations[call.operation];
  const bool in_place = call.memory.in_place;
  const size_t size = size_of(spec.type);
  const auto result = std::span(in_place ? call.buffers.input : call.buffers.output)
                          .subspan(call.memory.output_at * size, call.memory.output_count * size);
  const bool compare = has_result(spec, rank, cluster_.size());
  const size_t wrong = compare ? count_wrong(spec, result, expected(call.operation, rank)) : 0;
  checked_ += compare ? result.size() / size_of(spec.type) : 0;
  const std::string what = "rank " + std::to_string(rank) + ": " + describe(spec);
  if (wrong > 0) cluster_.check().violated(what + ": " + std::to_string(wrong) + " wrong elements");
  if (in_place) return;
  const auto& [input, output, before] = call.buffers;
  if (!input.empty() && std::memcmp(before.data(), input.data(), input.size()) != 0) {
    cluster_.check().violated(what + ": the input has changed");
  }
}

const std::vector<std::byte>& MixedJob::expected(size_t operation, int rank) {
  const OperationSpec& spec = scenario_.operations[operation];
  const size_t bytes = memory_of(spec, rank, cluster_.size()).output_count * size_of(spec.type);
  const bool shared = expects_the_same(spec);
  if (const auto known = expected_.find(operation); known != expected_.end()) return known->second;
  // Ranks end an operation at about the same time, so few operations are needed again.
  if (shared && expected_.size() == kExpectedMax) expected_.erase(expected_.begin());
  std::vector<std::byte>& filled = shared ? expected_[operation] : expected_here_;
  filled.resize(bytes);
  fill_expected(spec, operation, rank, cluster_.size(), filled);
  return filled;
}

// Fills the memory with kGrave, so that inspect_buffers() finds later writes. The data path check
// finds kernels that touch it.
void MixedJob::retire(Buffers buffers) {
  buffers.before = {};
  std::ranges::fill(buffers.input, kGrave);
  std::ranges::fill(buffers.output, kGrave);
  grave_bytes_ += buffers.input.size() + buffers.output.size();
  graves_.push_back(std::move(buffers));
  if (grave_bytes_ > kGraveBytesMax) inspect_buffers();
}

void MixedJob::inspect_buffers() {
  for (const Buffers& grave : graves_) {
    for (const auto* memory : {&grave.input, &grave.output}) {
      if (!all_grave(*memory))
        cluster_.check().violated("a buffer was written to after its operation's end");
      cluster_.check().forget(*memory);
    }
  }
  graves_.clear();
  grave_bytes_ = 0;
}

}  // namespace r2ccl::sim
