#include "tools/plan/msccl_values.h"

#include <algorithm>
#include <utility>

namespace r2ccl::tools {

MscclMemory::MscclMemory(const PlanKey& key, Rank rank, uint64_t elements, uint32_t scratch_chunks)
    : elements_(elements), scratch_(scratch_chunks) {
  const Extents extents = extents_of(key, rank);
  input_ = extents.input_count / elements;
  output_ = extents.output_count / elements;
  const Overlay overlay = overlay_of(key, rank);
  input_at_ = key.in_place ? overlay.input_at / elements : 0;
  output_at_ = key.in_place ? overlay.output_at / elements : input_;
  user_ = std::max(input_at_ + input_, output_at_ + output_);
}

uint64_t MscclMemory::chunks_in(MscclBuffer buffer) const {
  return buffer == MscclBuffer::input ? input_ : buffer == MscclBuffer::output ? output_ : scratch_;
}

size_t MscclMemory::place_of(const MscclChunks& chunks) const {
  const uint64_t start = chunks.buffer == MscclBuffer::input    ? input_at_
                         : chunks.buffer == MscclBuffer::output ? output_at_
                                                                : user_;
  return start + chunks.first;
}

Region MscclMemory::region_of(const MscclChunks& chunks, uint64_t count) const {
  if (chunks.buffer == MscclBuffer::scratch) {
    return {Buffer::scratch, chunks.first * elements_, count * elements_};
  }
  const uint64_t first = place_of(chunks);
  if (first >= output_at_ && first + count <= output_at_ + output_) {
    return {Buffer::output, (first - output_at_) * elements_, count * elements_};
  }
  return {Buffer::input, (first - input_at_) * elements_, count * elements_};
}

Region MscclMemory::scratch_region(uint64_t place, uint64_t count) const {
  return {Buffer::scratch, (place - user_) * elements_, count * elements_};
}

std::vector<MscclMemory> memories_of(const PlanKey& key, const MscclAlgorithm& algorithm,
                                     uint64_t elements) {
  std::vector<MscclMemory> memories;
  for (size_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
    memories.emplace_back(key, Rank(static_cast<int32_t>(gpu)), elements,
                          algorithm.gpus[gpu].scratch_chunks);
  }
  return memories;
}

namespace {

const char* name_of(MscclBuffer buffer) {
  return buffer == MscclBuffer::input    ? "input"
         : buffer == MscclBuffer::output ? "output"
                                         : "scratch memory";
}

Status wrong_step(const std::string& what) {
  return {Code::invalid_argument, what};
}

class Values {
 public:
  Values(const MscclOrder& order, const std::vector<MscclMemory>& memories)
      : order_(order), memories_(memories), messages_(order.messages().size()) {
    values_.complete.resize(order.size());
    values_.added_by.resize(order.size());
    for (const MscclMemory& memory : memories) {
      cells_.emplace_back(memory.size());
      for (uint32_t i = 0; i < memory.chunks_in(MscclBuffer::input); ++i) {
        cells_.back()[memory.place_of({MscclBuffer::input, i})].inputs = 1;
      }
    }
  }

  Result<MscclValues> follow() {
    for (const size_t index : order_.schedule()) R2CCL_RETURN_IF_ERROR(run(index));
    return std::move(values_);
  }

 private:
  // One chunk of memory.
  struct Cell {
    uint32_t inputs = 0;  // so many inputs are added in it
    // The step `r` that wrote it, as long as no step has used it.
    MscclChunkOf received{};
    // The step `re` that added it to another one; then it is not there any more.
    MscclChunkOf added{};
  };

  Cell& cell(size_t index, const MscclChunks& chunks, uint32_t k) {
    const uint32_t gpu = order_.node(index).gpu;
    return cells_[gpu][memories_[gpu].place_of(chunks) + k];
  }

  Status check_bounds(size_t index, const MscclChunks& chunks) const {
    const uint64_t most = memories_[order_.node(index).gpu].chunks_in(chunks.buffer);
    const uint64_t end = uint64_t{chunks.first} + order_.step(index).count;
    if (end <= most) return Status::ok_status();
    return wrong_step(order_.place(index) + "it uses chunk " + std::to_string(end - 1) +
                      " of the " + name_of(chunks.buffer) + ", which has " + std::to_string(most) +
                      " chunks");
  }

  Status run(size_t index) {
    const MscclStep& step = order_.step(index);
    if (has_source(step.type)) R2CCL_RETURN_IF_ERROR(check_bounds(index, step.source));
    if (has_target(step.type)) R2CCL_RETURN_IF_ERROR(check_bounds(index, step.target));
    if (step.type == MscclType::receive) values_.added_by[index].resize(step.count);
    std::vector<uint32_t>* out = sends(step.type) ? &messages_[order_.sent_by(index)] : nullptr;
    for (uint32_t k = 0; k < step.count; ++k) {
      R2CCL_RETURN_IF_ERROR(run_chunk(index, step, k, out));
    }
    if (receives(step.type)) std::vector<uint32_t>().swap(messages_[order_.received_by(index)]);
    return Status::ok_status();
  }

  Status run_chunk(size_t index, const MscclStep& step, uint32_t k, std::vector<uint32_t>* out) {
    if (step.type == MscclType::reduce) return add(index, step, k);
    const uint32_t arrived = receives(step.type) ? messages_[order_.received_by(index)][k] : 0;
    uint32_t inputs = arrived;
    if (has_source(step.type)) {
      Cell& from = cell(index, step.source, k);
      R2CCL_RETURN_IF_ERROR(use(index, from));
      inputs = receives(step.type) ? sum(index, arrived, from.inputs) : from.inputs;
    }
    if (out != nullptr) out->push_back(inputs);
    if (!has_target(step.type)) return Status::ok_status();
    const bool only_receives = step.type == MscclType::receive;
    cell(index, step.target, k) = {inputs, only_receives ? MscclChunkOf{index, k} : MscclChunkOf{},
                                   MscclChunkOf{}};
    return Status::ok_status();
  }

  // Returns the number of inputs in a sum, and records whether these are all. A wrong algorithm
  // may count without end.
  uint32_t sum(size_t index, uint32_t a, uint32_t b) {
    const uint32_t inputs = std::min<uint32_t>(a + b, UINT32_MAX / 2);
    values_.complete[index].push_back(inputs == memories_.size());
    return inputs;
  }

  // A step reads the chunk.
  Status use(size_t index, Cell& used) {
    if (used.added.exists()) {
      return wrong_step(order_.place(index) + "it uses a chunk that " + line_of(used.added.node) +
                        " has added to another one; let `re` be the " +
                        "only user of a chunk that it adds");
    }
    used.received = {};
    return Status::ok_status();
  }

  std::string line_of(size_t index) const {
    return "line " + std::to_string(order_.step(index).line);
  }

  // A plan adds a chunk when it arrives. So the sum of two chunks needs one that only arrives to be
  // added: in scratch, whose content ends then, or in place of the sum.
  Status add(size_t index, const MscclStep& step, uint32_t k) {
    Cell& source = cell(index, step.source, k);
    Cell& target = cell(index, step.target, k);
    const bool is_source = step.source.buffer == MscclBuffer::scratch && source.received.exists();
    if (!is_source && !target.received.exists()) {
      return wrong_step(
          order_.place(index) +
          "`re` adds a chunk that did not come by `r`, or that has other users; plans "
          "add only what arrives: use rrc at the receiver");
    }
    const MscclChunkOf arrival = is_source ? source.received : target.received;
    values_.added_by[arrival.node][arrival.chunk] = {index, k};
    R2CCL_RETURN_IF_ERROR(use(index, is_source ? target : source));
    target.inputs = sum(index, source.inputs, target.inputs);
    target.received = {};
    if (is_source) source.added = {index, k};
    return Status::ok_status();
  }

  const MscclOrder& order_;
  const std::vector<MscclMemory>& memories_;
  std::vector<std::vector<Cell>> cells_;         // by GPU and place
  std::vector<std::vector<uint32_t>> messages_;  // the inputs in each chunk, while it is on its way
  MscclValues values_;
};

}  // namespace

Result<MscclValues> values_of(const MscclOrder& order, const std::vector<MscclMemory>& memories) {
  return Values(order, memories).follow();
}

}  // namespace r2ccl::tools
