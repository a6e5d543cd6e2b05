#include "work_format.h"

#include <cstring>

#include "report.h"

namespace r2ccl::emulated {
namespace {

// A chunk's size is stored in 8 bits, as a floating-point number of 5 bits for the exponent and 3
// for the mantissa.
int64_t decode_chunk_bytes(uint64_t code) {
  const uint64_t exponent = code >> 3;
  const uint64_t mantissa = code & 7;
  if (exponent == 0) return static_cast<int64_t>(mantissa);
  return static_cast<int64_t>((mantissa | 8) << (exponent - 1));
}

int number(const void* object, const Field& field) {
  return static_cast<int>(read_signed(object, field));
}

}  // namespace

WorkFormat::WorkFormat(const Layout& layout, int version)
    : version_(version),
      parameters_(layout),
      batch_(layout),
      comm_(layout),
      channel_(layout),
      collective_(layout),
      point_to_point_(layout),
      connection_(layout) {}

Parameters WorkFormat::parameters(const char* block) const {
  Parameters result;
  result.comm = read_pointer(block, parameters_.comm);
  const uint64_t mask = read(block, parameters_.channel_mask);
  for (int channel = 0; channel < 64; ++channel) {
    if ((mask >> channel & 1) != 0) result.channels.push_back(channel);
  }
  result.batches = block + parameters_.bytes;
  result.storage = static_cast<Storage>(read(block, parameters_.storage));
  result.works = block;
  if (result.storage != Storage::kParameters) {
    result.works = read_pointer(block, parameters_.works);
    result.works_mask = static_cast<uint32_t>(read(block, parameters_.works_mask));
  }
  return result;
}

Channel WorkFormat::channel(const char* comm, int number_of_channel) const {
  const char* channel =
      address(comm, comm_.channels) + static_cast<size_t>(number_of_channel) * channel_.bytes;
  Channel result;
  result.number = number_of_channel;
  result.rank = number(comm, comm_.rank);
  result.ranks = number(comm, comm_.ranks);
  const char* ring = address(channel, channel_.ring);
  result.ring = {number(ring, channel_.previous), number(ring, channel_.next),
                 number(ring, channel_.index),
                 reinterpret_cast<int*>(read_pointer(ring, channel_.ranks))};
  const char* tree = address(channel, channel_.tree);
  result.tree.up = number(tree, channel_.up);
  for (size_t at = 0; at < channel_.down.bytes; at += sizeof(int)) {
    const int down = number(tree, {channel_.down.offset + at, sizeof(int)});
    if (down >= 0) result.tree.down.push_back(down);
  }
  result.peers = reinterpret_cast<char* const*>(read_pointer(channel, channel_.peers));
  result.abort_flag =
      reinterpret_cast<const volatile uint32_t*>(read_pointer(comm, comm_.abort_flag));
  if (channel_.work_counter.exists()) {
    result.work_counter = address(channel, channel_.work_counter);
  }
  const auto step_bytes = [&](Protocol protocol) {
    const size_t at = comm_.buffer_bytes.offset + static_cast<size_t>(protocol) * sizeof(int);
    return number(comm, {at, sizeof(int)}) / kStepsInFlight;
  };
  result.ll_step_bytes = step_bytes(Protocol::kLl);
  result.simple_step_bytes = step_bytes(Protocol::kSimple);
  result.point_to_point_step_bytes = number(comm, comm_.point_to_point_step_bytes);
  return result;
}

Batch WorkFormat::batch(const Parameters& parameters, size_t index) const {
  const char* batch = parameters.batches + index * batch_.bytes;
  const uint64_t type = read(batch, batch_.type);
  if (type > static_cast<uint64_t>(WorkType::kCollective)) {
    unsupported("work of type " + std::to_string(type) + " (with registered buffers, or batched)");
  }
  return {number(batch, batch_.next),
          read(batch, batch_.is_extended) != 0,
          static_cast<WorkType>(type),
          read(batch, batch_.function),
          static_cast<uint32_t>(read(batch, batch_.first_offset)),
          read(batch, batch_.works)};
}

std::vector<std::vector<char>> WorkFormat::works(const Parameters& parameters,
                                                 const Batch& batch) const {
  const size_t bytes =
      batch.type == WorkType::kCollective ? collective_.bytes : point_to_point_.bytes;
  std::vector<std::vector<char>> result;
  for (unsigned place = 0; place < 64; ++place) {
    if ((batch.works >> place & 1) == 0) continue;
    const auto offset = static_cast<uint32_t>(batch.first_offset + place * bytes);
    const char* work = parameters.works + (offset & parameters.works_mask);
    result.emplace_back(work, work + bytes);
  }
  return result;
}

CollectiveWork WorkFormat::collective(const char* work) const {
  CollectiveWork result;
  result.first_channel = number(work, collective_.first_channel);
  result.last_channel = number(work, collective_.last_channel);
  for (size_t which = 0; which < result.counts.size(); ++which) {
    result.counts[which] = read_signed(work, collective_.counts[which]);
    result.chunk_grains[which] = read_signed(work, collective_.chunk_grains[which]);
  }
  result.root = number(work, collective_.root);
  result.input = read_pointer(work, collective_.input);
  result.output = read_pointer(work, collective_.output);
  result.reduction_argument = read(work, collective_.argument);
  result.argument_is_pointer = read(work, collective_.argument_is_pointer) != 0;
  result.has_registered_buffer = read(work, collective_.has_registered_buffer) != 0 ||
                                 read(work, collective_.has_network_buffer) != 0;
  return result;
}

Transfer WorkFormat::transfer(const char* work, const TransferFormat& format) {
  return {read_pointer(work, format.memory),
          read_signed(work, format.bytes),
          number(work, format.peer),
          number(work, format.channels),
          decode_chunk_bytes(read(work, format.chunk_bytes)),
          read(work, format.is_ll) != 0};
}

PointToPointWork WorkFormat::point_to_point(const char* work) const {
  return {transfer(work, point_to_point_.send), transfer(work, point_to_point_.receive),
          number(work, point_to_point_.channel_base), number(work, point_to_point_.channels)};
}

void WorkFormat::count_works(const Channel& channel, size_t count) const {
  if (channel.work_counter == nullptr) return;
  uint64_t counter = 0;
  std::memcpy(&counter, channel.work_counter, sizeof counter);
  counter += count;
  std::memcpy(channel.work_counter, &counter, sizeof counter);
}

ChannelPart CollectiveWork::part_of(int channel, int64_t grain_elements) const {
  const auto [first, each, last] = counts;
  const int64_t between = last_channel - first_channel - 1;
  ChannelPart part;
  // With one channel its count is the first one, and the two others are 0.
  part.whole_count = first + each * between + last;
  size_t which = 1;
  if (channel == first_channel) {
    which = 0;
  } else if (channel == last_channel) {
    which = 2;
    part.offset = first + between * each;
  } else {
    part.offset = first + (channel - first_channel - 1) * each;
  }
  part.count = counts[which];
  part.chunk = chunk_grains[which] * grain_elements;
  return part;
}

}  // namespace r2ccl::emulated
