#include "tools/bench/bench_options.h"

#include <map>
#include <optional>

#include "base/types.h"
#include "tools/common/parse.h"

namespace r2ccl::tools {
namespace {

constexpr size_t kSizesMax = 10'000;
constexpr double kDurationMax = 1e6;

template <typename T>
Status look_up(const std::map<std::string, T>& names, const char* option, const std::string& word,
               T* value) {
  auto found = names.find(word);
  if (found != names.end()) {
    *value = found->second;
    return Status::ok_status();
  }
  std::string known;
  for (const auto& [name, unused] : names) known += (known.empty() ? "" : ", ") + name;
  return {Code::invalid_argument, std::string(option) + " '" + word + "': choose from " + known};
}

Result<uint64_t> read_bytes(const char* option, const std::string& text) {
  if (auto bytes = parse_bytes(text)) return *bytes;
  return Status(Code::invalid_argument,
                std::string(option) + " '" + text + "' is not a size such as 65536, 64K or 1M");
}

Status make_sizes(BenchOptions* options) {
  Result<uint64_t> first = read_bytes("-b", options->bytes_min);
  if (!first.ok()) return first.status();
  Result<uint64_t> last = options->bytes_max.empty() ? first : read_bytes("-e", options->bytes_max);
  if (!last.ok()) return last.status();
  // nccl-tests' default is a step of 1 MiB, but its users ask for powers of two.
  int factor = options->step_factor.value_or(options->step_bytes.empty() ? 2 : 0);
  if (options->step_factor && factor < 2) return {Code::invalid_argument, "-f must be 2 or more"};
  uint64_t step = 0;
  if (!options->step_bytes.empty()) {
    Result<uint64_t> given = read_bytes("-i", options->step_bytes);
    if (!given.ok()) return given.status();
    step = given.value();
    if (step == 0) return {Code::invalid_argument, "-i must be 1 or more"};
  }
  options->bytes_last = last.value();
  for (uint64_t bytes = first.value(); bytes <= last.value();) {
    options->sizes.push_back(bytes);
    if (options->sizes.size() > kSizesMax) return {Code::invalid_argument, "too many sizes"};
    uint64_t next_bytes = factor >= 2 ? bytes * static_cast<uint64_t>(factor) : bytes + step;
    if (next_bytes <= bytes) break;
    bytes = next_bytes;
  }
  if (options->sizes.empty()) return {Code::invalid_argument, "-e is smaller than -b"};
  return Status::ok_status();
}

}  // namespace

Status resolve(BenchOptions* options) {
  static const std::map<std::string, Collective> kCollectives = {
      {"all_reduce", Collective::all_reduce},
      {"reduce", Collective::reduce},
      {"broadcast", Collective::broadcast},
      {"all_gather", Collective::all_gather},
      {"reduce_scatter", Collective::reduce_scatter},
      {"gather", Collective::gather},
      {"scatter", Collective::scatter},
      {"sendrecv", Collective::sendrecv},
      {"tagged", Collective::tagged},
      {"alltoall", Collective::alltoall},
      {"barrier", Collective::barrier}};
  static const std::map<std::string, r2cclDataType_t> kTypes = {
      {"int8", r2cclInt8},      {"uint8", r2cclUint8},     {"int32", r2cclInt32},
      {"uint32", r2cclUint32},  {"int64", r2cclInt64},     {"uint64", r2cclUint64},
      {"half", r2cclFloat16},   {"float16", r2cclFloat16}, {"bfloat16", r2cclBfloat16},
      {"float", r2cclFloat32},  {"float32", r2cclFloat32}, {"double", r2cclFloat64},
      {"float64", r2cclFloat64}};
  static const std::map<std::string, r2cclRedOp_t> kRedOps = {
      {"sum", r2cclSum}, {"prod", r2cclProd}, {"max", r2cclMax}, {"min", r2cclMin},
      {"avg", r2cclAvg}, {"band", r2cclBand}, {"bor", r2cclBor}, {"bxor", r2cclBxor}};
  R2CCL_RETURN_IF_ERROR(
      look_up(kCollectives, "--collective", options->collective_name, &options->collective));
  R2CCL_RETURN_IF_ERROR(look_up(kTypes, "-d", options->type_name, &options->type));
  R2CCL_RETURN_IF_ERROR(look_up(kRedOps, "-o", options->redop_name, &options->redop));
  if (options->type_name == "float32") options->type_name = "float";
  if (options->type_name == "float64") options->type_name = "double";
  if (options->type_name == "float16") options->type_name = "half";
  if (options->redop >= r2cclBand && options->type >= r2cclFloat16) {
    return {Code::invalid_argument, "-o " + options->redop_name + " needs an integer type"};
  }
  // nccl-tests counts the checks; this bench checks all or none.
  std::optional<int> check = options->check_text.empty() ? 1 : parse_int(options->check_text);
  if (!check || *check < 0) return {Code::invalid_argument, "-c must be 0 or 1"};
  options->check = *check != 0;
  if (options->iterations < 1) return {Code::invalid_argument, "-n must be 1 or more"};
  if (options->warmup < 0) return {Code::invalid_argument, "-w cannot be negative"};
  if (!(options->duration_s >= 0 && options->duration_s <= kDurationMax)) {
    return {Code::invalid_argument, "--duration must be 0 to 1000000 seconds"};
  }
  if (options->in_place_only && options->out_of_place_only) {
    return {Code::invalid_argument, "--in-place and --out-of-place exclude each other"};
  }
  if (options->in_place_only && !has_in_place(options->collective)) {
    return {Code::invalid_argument, "--in-place is for all_reduce and broadcast"};
  }
  options->sizes.clear();
  if (options->collective == Collective::barrier) {
    options->sizes = {0};
    options->check = false;  // a barrier moves no values
    return Status::ok_status();
  }
  R2CCL_RETURN_IF_ERROR(make_sizes(options));
  if (options->duration_s > 0 && options->sizes.size() > 1) {
    return {Code::invalid_argument, "--duration runs one size: leave -e out"};
  }
  return Status::ok_status();
}

size_t type_bytes(r2cclDataType_t type) {
  return size_of(static_cast<DataType>(type));
}

uint64_t whole_bytes(const BenchOptions& options, uint64_t bytes, int ranks) {
  uint64_t unit = type_bytes(options.type);
  if (has_blocks(options.collective)) unit *= static_cast<uint64_t>(ranks);
  return (bytes + unit - 1) / unit * unit;
}

bool has_blocks(Collective collective) {
  switch (collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall:
      return true;
    default:
      return false;
  }
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

bool is_rooted(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

bool has_in_place(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::broadcast;
}

// The factors of nccl-tests.
double bus_factor(Collective collective, int ranks) {
  const double others = 1.0 * (ranks - 1) / ranks;
  if (collective == Collective::all_reduce) return 2 * others;
  return has_blocks(collective) ? others : 1;
}

}  // namespace r2ccl::tools
