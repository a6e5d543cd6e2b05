#include "tools/plan/msccl_import.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "tools/plan/msccl_order.h"
#include "tools/plan/msccl_values.h"

namespace r2ccl::tools {
namespace {

bool counts_blocks(Collective collective) {
  return collective != Collective::all_reduce && collective != Collective::broadcast &&
         collective != Collective::reduce;
}

Status wrong_import(const std::string& what) {
  return {Code::invalid_argument, what};
}

// A message, or one chunk of it.
struct Piece {
  uint32_t first = 0;
  uint32_t count = 0;
};

// Cuts messages into single chunks where a plan needs several steps at the receiver: chunks that
// `re` adds to different places, or of which only some become complete.
class Pieces {
 public:
  Pieces(const MscclOrder& order, const MscclValues& values) : order_(order), values_(values) {
    for (const MscclMessage& message : order.messages()) {
      whole_.push_back(is_one_step(message.receiver));
    }
  }

  std::vector<Piece> of(size_t message) const {
    const uint32_t count = order_.step(order_.messages()[message].sender).count;
    if (whole_[message]) return {{0, count}};
    std::vector<Piece> pieces;
    for (uint32_t k = 0; k < count; ++k) pieces.push_back({k, 1});
    return pieces;
  }

  // Returns the step that uses the memory of the receiver: `re`, where that adds the piece.
  MscclChunkOf user_of(size_t message, const Piece& piece) const {
    const size_t receiver = order_.messages()[message].receiver;
    if (order_.step(receiver).type == MscclType::receive) {
      const MscclChunkOf& added = values_.added_by[receiver][piece.first];
      if (added.exists()) return added;
    }
    return {receiver, piece.first};
  }

 private:
  bool is_one_step(size_t receiver) const {
    const std::vector<bool>& complete = values_.complete[receiver];
    if (std::ranges::adjacent_find(complete, std::not_equal_to<>()) != complete.end()) return false;
    const std::vector<MscclChunkOf>& added = values_.added_by[receiver];
    for (size_t k = 1; k < added.size(); ++k) {
      if (added[k].node != added[0].node) return false;
      if (!added[k].exists()) continue;
      const std::vector<bool>& sums = values_.complete[added[k].node];
      if (added[k].chunk != added[0].chunk + k || sums[added[k].chunk] != sums[added[0].chunk]) {
        return false;
      }
    }
    return true;
  }

  const MscclOrder& order_;
  const MscclValues& values_;
  std::vector<bool> whole_;  // by message
};

// Tells which of two steps of one GPU the algorithm puts first: by thread block and step, how many
// steps of each thread block have ended when it starts.
class Before {
 public:
  Before(const MscclOrder& order, const MscclGpu& gpu, uint32_t self) : order_(order) {
    first_ = gpu.blocks.empty() ? 0 : order.index_of({self, 0, 0});
    size_t steps = 0;
    for (const MscclBlock& block : gpu.blocks) steps += block.steps.size();
    ended_.assign(steps, std::vector<uint32_t>(gpu.blocks.size(), 0));
    for (const size_t index : order.schedule()) {
      const MscclNode& node = order.node(index);
      if (node.gpu != self) continue;
      if (node.step > 0) take(index, {self, node.block, node.step - 1});
      if (const auto& wait = order.step(index).waits_for) {
        take(index, {self, wait->block, wait->step});
      }
    }
  }

  bool is_before(size_t first, size_t second) const {
    const MscclNode& node = order_.node(first);
    return ended_[second - first_][node.block] > node.step;
  }

 private:
  void take(size_t index, const MscclNode& before) {
    std::vector<uint32_t>& ended = ended_[index - first_];
    const std::vector<uint32_t>& more = ended_[order_.index_of(before) - first_];
    for (size_t block = 0; block < ended.size(); ++block) {
      ended[block] = std::max(ended[block], more[block]);
    }
    ended[before.block] = std::max(ended[before.block], before.step + 1);
  }

  const MscclOrder& order_;
  size_t first_ = 0;
  std::vector<std::vector<uint32_t>> ended_;
};

// A step of the plan, with what decides its place in the list.
struct Draft {
  Step step;
  size_t user = 0;    // the node whose memory accesses these are
  uint32_t part = 0;  // of the node: what it receives comes before what it sends
  size_t message = kNoMessage;
  uint32_t piece = 0;
  uint64_t reads = 0;  // the first places
  uint64_t writes = 0;
  uint64_t count = 0;  // chunks
};

// The list of one rank.
class RankImport {
 public:
  RankImport(const MscclAlgorithm& algorithm, const MscclOrder& order, const MscclValues& values,
             const Pieces& pieces, const std::vector<std::vector<uint32_t>>& turns,
             const MscclMemory& memory, uint32_t self)
      : order_(order),
        values_(values),
        pieces_(pieces),
        turns_(turns),
        memory_(memory),
        self_(self),
        scratch_end_(memory.size()),
        before_(order, algorithm.gpus[self], self) {}

  Result<RankPlan> plan(uint64_t elements) {
    for (const size_t index : order_.schedule()) {
      if (order_.node(index).gpu == self_) R2CCL_RETURN_IF_ERROR(add(index));
    }
    std::ranges::stable_sort(drafts_, {}, [&](const Draft& draft) {
      const MscclNode& node = order_.node(draft.user);
      return std::tuple(order_.round(draft.user), node.block, node.step, draft.part, draft.piece);
    });
    followers_.resize(drafts_.size());
    waits_for_.assign(drafts_.size(), 0);
    order_accesses();
    order_messages();
    RankPlan plan;
    plan.rank = Rank(static_cast<int32_t>(self_));
    plan.scratch = (scratch_end_ - user_chunks()) * elements;
    R2CCL_RETURN_IF_ERROR(list(plan.steps));
    return plan;
  }

 private:
  uint64_t user_chunks() const { return memory_.size() - memory_.chunks_in(MscclBuffer::scratch); }

  Status add(size_t index) {
    const MscclStep& step = order_.step(index);
    uint64_t sum_at = 0;  // of rrs, whose sum has no place in the algorithm
    if (step.type == MscclType::receive_reduce_send) {
      sum_at = scratch_end_;
      scratch_end_ += step.count;
    }
    if (receives(step.type)) R2CCL_RETURN_IF_ERROR(add_receive(index, step, sum_at));
    if (sends(step.type)) add_send(index, step, sum_at);
    if (step.type == MscclType::copy) add_copy(index, step);
    return Status::ok_status();
  }

  Status add_receive(size_t index, const MscclStep& step, uint64_t sum_at) {
    const size_t message = order_.received_by(index);
    const size_t sender = order_.messages()[message].sender;
    const std::vector<Piece> pieces = pieces_.of(message);
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      Draft draft;
      draft.message = message;
      draft.piece = i;
      draft.count = pieces[i].count;
      draft.step.peer = Rank(static_cast<int32_t>(order_.node(sender).gpu));
      const MscclChunkOf user = pieces_.user_of(message, pieces[i]);
      draft.user = user.node;
      if (user.node != index) {
        if (!before_.is_before(index, user.node)) {
          return wrong_import(order_.place(user.node) + "it adds a chunk that line " +
                              std::to_string(step.line) + " receives, and does not wait for it");
        }
        add_arrival(draft, pieces[i].first, order_.step(user.node), user.chunk);
      } else if (step.type == MscclType::receive || step.type == MscclType::receive_copy_send) {
        const MscclChunks target = chunks_of(step.target, pieces[i].first);
        draft.step.kind = StepKind::receive;
        draft.step.target = memory_.region_of(target, draft.count);
        draft.writes = memory_.place_of(target);
      } else {
        reduce(draft, step, pieces[i].first, sum_at);
      }
      drafts_.push_back(std::move(draft));
    }
    return Status::ok_status();
  }

  // `re` adds what arrives, from chunk `first` of the message on, to its other chunk.
  void add_arrival(Draft& draft, uint32_t first, const MscclStep& sum, uint32_t chunk) const {
    const MscclChunks& arrived = order_.step(order_.messages()[draft.message].receiver).target;
    const bool source_arrives = sum.source.buffer == MscclBuffer::scratch &&
                                chunks_of(sum.source, chunk) == chunks_of(arrived, first);
    const MscclChunks own = chunks_of(source_arrives ? sum.target : sum.source, chunk);
    const MscclChunks target = chunks_of(sum.target, chunk);
    fill_reduction(draft, memory_.region_of(own, draft.count), memory_.place_of(own),
                   memory_.region_of(target, draft.count), memory_.place_of(target));
    draft.step.last_reduction = values_.complete[draft.user][chunk];
  }

  void reduce(Draft& draft, const MscclStep& step, uint32_t first, uint64_t sum_at) const {
    const MscclChunks source = chunks_of(step.source, first);
    const bool stays = has_target(step.type);
    const MscclChunks target = chunks_of(step.target, first);
    const uint64_t place = stays ? memory_.place_of(target) : sum_at + first;
    fill_reduction(
        draft, memory_.region_of(source, draft.count), memory_.place_of(source),
        stays ? memory_.region_of(target, draft.count) : memory_.scratch_region(place, draft.count),
        place);
    draft.step.last_reduction = values_.complete[draft.user][first];
  }

  // All ranks that add the same two sums add them in the same order: the lower rank's is the left
  // one.
  void fill_reduction(Draft& draft, const Region& source, uint64_t reads, const Region& target,
                      uint64_t writes) const {
    draft.step.kind = StepKind::receive_reduce;
    draft.step.source = source;
    draft.step.target = target;
    draft.step.operands = static_cast<int32_t>(self_) < draft.step.peer.value()
                              ? Operands::own_first
                              : Operands::received_first;
    draft.reads = reads;
    draft.writes = writes;
  }

  void add_send(size_t index, const MscclStep& step, uint64_t sum_at) {
    const size_t message = order_.sent_by(index);
    const size_t receiver = order_.messages()[message].receiver;
    const std::vector<Piece> pieces = pieces_.of(message);
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      Draft draft;
      draft.user = index;
      draft.part = 1;
      draft.message = message;
      draft.piece = i;
      draft.count = pieces[i].count;
      draft.step.kind = StepKind::send;
      draft.step.peer = Rank(static_cast<int32_t>(order_.node(receiver).gpu));
      if (step.type == MscclType::receive_reduce_send) {
        draft.reads = sum_at + pieces[i].first;
        draft.step.source = memory_.scratch_region(draft.reads, draft.count);
      } else {
        const MscclChunks from =
            chunks_of(has_target(step.type) ? step.target : step.source, pieces[i].first);
        draft.reads = memory_.place_of(from);
        draft.step.source = memory_.region_of(from, draft.count);
      }
      drafts_.push_back(std::move(draft));
    }
  }

  void add_copy(size_t index, const MscclStep& step) {
    Draft draft;
    draft.user = index;
    draft.count = step.count;
    draft.reads = memory_.place_of(step.source);
    draft.writes = memory_.place_of(step.target);
    if (draft.reads == draft.writes) return;  // in place there is nothing to do
    draft.step.kind = StepKind::copy;
    draft.step.source = memory_.region_of(step.source, step.count);
    draft.step.target = memory_.region_of(step.target, step.count);
    drafts_.push_back(std::move(draft));
  }

  static MscclChunks chunks_of(const MscclChunks& chunks, uint32_t from) {
    return {chunks.buffer, chunks.first + from};
  }

  bool is_before(const Draft& first, const Draft& second) const {
    if (first.user == second.user) return first.part < second.part;
    return before_.is_before(first.user, second.user);
  }

  // Gives each step the earlier ones that use the same chunks, where one of the two writes.
  void order_accesses() {
    struct Users {
      uint32_t writer = UINT32_MAX;
      std::vector<uint32_t> readers{};  // since it was written
    };
    std::vector<Users> users(scratch_end_);
    const auto after = [&](uint32_t first, uint32_t second) {
      if (first == second || !is_before(drafts_[first], drafts_[second])) return;
      drafts_[second].step.after.push_back(first);
    };
    for (uint32_t i = 0; i < drafts_.size(); ++i) {
      const Draft& draft = drafts_[i];
      const bool reads = draft.step.kind != StepKind::receive;
      const bool writes = draft.step.kind != StepKind::send;
      for (uint64_t k = 0; k < draft.count && reads; ++k) {
        Users& used = users[draft.reads + k];
        if (used.writer != UINT32_MAX) after(used.writer, i);
        used.readers.push_back(i);
      }
      for (uint64_t k = 0; k < draft.count && writes; ++k) {
        Users& used = users[draft.writes + k];
        if (used.writer != UINT32_MAX) after(used.writer, i);
        for (const uint32_t reader : used.readers) after(reader, i);
        used = {i, {}};
      }
    }
    for (uint32_t i = 0; i < drafts_.size(); ++i) {
      std::vector<uint32_t>& list = drafts_[i].step.after;
      std::ranges::sort(list);
      list.erase(std::unique(list.begin(), list.end()), list.end());
      for (const uint32_t before : list) follow(before, i);
    }
  }

  void follow(uint32_t first, uint32_t second) {
    followers_[first].push_back(second);
    ++waits_for_[second];
  }

  // Messages of one direction with one peer stand in the order of their turns.
  void order_messages() {
    std::map<std::pair<bool, Rank>, std::vector<uint32_t>> lists;
    for (uint32_t i = 0; i < drafts_.size(); ++i) {
      const Step& step = drafts_[i].step;
      if (step.kind != StepKind::copy) {
        lists[{step.kind == StepKind::send, step.peer}].push_back(i);
      }
    }
    for (auto& [direction, list] : lists) {
      std::ranges::sort(list, {},
                        [&](uint32_t i) { return turns_[drafts_[i].message][drafts_[i].piece]; });
      for (size_t i = 1; i < list.size(); ++i) follow(list[i - 1], list[i]);
    }
  }

  // Puts the steps into the list, each as early as its place in drafts_ and the orders allow.
  Status list(std::vector<Step>& steps) {
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    std::vector<uint32_t> index_of(drafts_.size());
    for (uint32_t i = 0; i < drafts_.size(); ++i) {
      if (waits_for_[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const uint32_t next = ready.top();
      ready.pop();
      index_of[next] = static_cast<uint32_t>(steps.size());
      steps.push_back(std::move(drafts_[next].step));
      std::vector<uint32_t>& after = steps.back().after;
      for (uint32_t& before : after) before = index_of[before];
      std::ranges::sort(after);
      for (const uint32_t follower : followers_[next]) {
        if (--waits_for_[follower] == 0) ready.push(follower);
      }
    }
    if (steps.size() == drafts_.size()) return Status::ok_status();
    const auto stuck = std::ranges::find_if(waits_for_, [](uint32_t count) { return count > 0; });
    return wrong_import(
        order_.place(drafts_[static_cast<size_t>(stuck - waits_for_.begin())].user) +
        "two ranks of a plan exchange messages in one order, and the channels of this algorithm "
        "need several; put messages that depend on each other on one channel");
  }

  const MscclOrder& order_;
  const MscclValues& values_;
  const Pieces& pieces_;
  const std::vector<std::vector<uint32_t>>& turns_;
  const MscclMemory& memory_;
  const uint32_t self_;
  uint64_t scratch_end_;
  const Before before_;
  std::vector<Draft> drafts_;
  std::vector<std::vector<uint32_t>> followers_;
  std::vector<uint32_t> waits_for_;
};

// Returns the turn of each piece of each message among those from its sender to its receiver.
std::vector<std::vector<uint32_t>> turns_of(const MscclOrder& order, const Pieces& pieces) {
  using Turn = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, size_t>;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Turn>> pairs;
  std::vector<std::vector<uint32_t>> turns(order.messages().size());
  for (size_t message = 0; message < turns.size(); ++message) {
    const auto [sender, receiver] = order.messages()[message];
    const std::vector<Piece> all = pieces.of(message);
    turns[message].resize(all.size());
    for (uint32_t i = 0; i < all.size(); ++i) {
      const size_t user = pieces.user_of(message, all[i]).node;
      const MscclNode& node = order.node(user);
      pairs[{order.node(sender).gpu, order.node(receiver).gpu}].emplace_back(
          order.round(user), node.block, node.step, i, message);
    }
  }
  for (auto& [pair, list] : pairs) {
    std::ranges::sort(list);
    for (uint32_t turn = 0; turn < list.size(); ++turn) {
      turns[std::get<4>(list[turn])][std::get<3>(list[turn])] = turn;
    }
  }
  return turns;
}

}  // namespace

uint64_t least_count(const MscclAlgorithm& algorithm) {
  return counts_blocks(algorithm.collective) ? algorithm.chunks / algorithm.gpus.size()
                                             : algorithm.chunks;
}

Result<WholePlan> import_msccl(const MscclAlgorithm& algorithm, PlanKey key) {
  key.collective = algorithm.collective;
  key.in_place = algorithm.in_place;
  key.rank_count = static_cast<int32_t>(algorithm.gpus.size());
  const uint64_t least = least_count(algorithm);
  if (key.count == 0 || key.count % least != 0) {
    return wrong_import("the algorithm cuts " + std::to_string(key.count) +
                        " elements into equal chunks; take a multiple of " + std::to_string(least));
  }
  const uint64_t elements = key.count / least;
  const Result<MscclOrder> order = MscclOrder::of(algorithm);
  R2CCL_RETURN_IF_ERROR(order.status());
  const std::vector<MscclMemory> memories = memories_of(key, algorithm, elements);
  const Result<MscclValues> values = values_of(order.value(), memories);
  R2CCL_RETURN_IF_ERROR(values.status());
  const Pieces pieces(order.value(), values.value());
  const std::vector<std::vector<uint32_t>> turns = turns_of(order.value(), pieces);
  WholePlan plan;
  for (uint32_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
    size_t steps = 0;
    for (const MscclBlock& block : algorithm.gpus[gpu].blocks) steps += block.steps.size();
    if (steps * algorithm.gpus[gpu].blocks.size() > kMscclCellsMax) {
      return wrong_import("GPU " + std::to_string(gpu) + " has " + std::to_string(steps) +
                          " steps in " + std::to_string(algorithm.gpus[gpu].blocks.size()) +
                          " thread blocks; their product may be " + std::to_string(kMscclCellsMax));
    }
    Result<RankPlan> part =
        RankImport(algorithm, order.value(), values.value(), pieces, turns, memories[gpu], gpu)
            .plan(elements);
    R2CCL_RETURN_IF_ERROR(part.status());
    plan.keys.push_back(key);
    plan.plans.push_back(std::move(part).value());
  }
  return plan;
}

}  // namespace r2ccl::tools
