#include "tools/plan/msccl_xml.h"

#include <expat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <memory>
#include <utility>

#include "plan/text/plan_text.h"
#include "plan/text/plan_words.h"
#include "plan/text/quoted.h"

namespace r2ccl::tools {
namespace {

constexpr std::array kTypeWords{PlanWord{MscclType::send, "s"},
                                PlanWord{MscclType::receive, "r"},
                                PlanWord{MscclType::receive_copy_send, "rcs"},
                                PlanWord{MscclType::receive_reduce_send, "rrs"},
                                PlanWord{MscclType::receive_reduce_copy, "rrc"},
                                PlanWord{MscclType::receive_reduce_copy_send, "rrcs"},
                                PlanWord{MscclType::copy, "cpy"},
                                PlanWord{MscclType::reduce, "re"},
                                PlanWord{MscclType::nop, "nop"}};

// The executor and msccl-tools write "reducescatter" in different ways.
constexpr std::array kCollNames{PlanWord{Collective::all_reduce, "allreduce"},
                                PlanWord{Collective::all_gather, "allgather"},
                                PlanWord{Collective::reduce_scatter, "reducescatter"},
                                PlanWord{Collective::reduce_scatter, "reduce_scatter"},
                                PlanWord{Collective::all_to_all, "alltoall"},
                                PlanWord{Collective::broadcast, "broadcast"},
                                PlanWord{Collective::reduce, "reduce"},
                                PlanWord{Collective::gather, "gather"},
                                PlanWord{Collective::scatter, "scatter"}};

constexpr std::array kBufferNames{PlanWord{MscclBuffer::input, "i"},
                                  PlanWord{MscclBuffer::output, "o"},
                                  PlanWord{MscclBuffer::scratch, "s"}};

// The attributes of one element. Remembers the first error; after it each call returns a default.
class Attributes {
 public:
  Attributes(std::string_view element, const char** pairs) : element_(element), pairs_(pairs) {}

  int64_t number(const char* name, int64_t least, int64_t most) {
    const std::string_view text = word(name);
    int64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool fits = failure == std::errc() && end == text.data() + text.size() &&
                      least <= number && number <= most;
    if (fits) return number;
    wrong(std::string(name) + "=" + quoted(text) + " is no number from " + std::to_string(least) +
          " to " + std::to_string(most));
    return least;
  }
  uint32_t count(const char* name, int64_t least, uint32_t most) {
    return static_cast<uint32_t>(number(name, least, most));
  }
  int32_t index(const char* name, int64_t least, int64_t most) {
    return static_cast<int32_t>(number(name, least, most));
  }
  template <typename T, size_t n>
  T choice(const char* name, const std::array<PlanWord<T>, n>& words) {
    const std::string_view text = word(name);
    const auto value = value_of(words, text);
    if (!value) {
      wrong(std::string(name) + "=" + quoted(text) + " is none of " + list_of_words(words));
    }
    return value.value_or(T{});
  }
  std::string_view word(const char* name) {
    for (const char** pair = pairs_; *pair != nullptr; pair += 2) {
      if (pair[0] == std::string_view(name)) return pair[1];
    }
    wrong(std::string("the attribute ") + name + " is missing");
    return {};
  }
  void wrong(const std::string& what) {
    if (error_.empty()) error_ = "<" + std::string(element_) + ">: " + what;
  }
  const std::string& error() const { return error_; }

 private:
  const std::string_view element_;
  const char** const pairs_;
  std::string error_;
};

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};

class Reader {
 public:
  Reader() : parser_(XML_ParserCreate(nullptr)) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), &Reader::on_start, &Reader::on_end);
    XML_SetStartDoctypeDeclHandler(parser_.get(), &Reader::on_doctype);
  }

  Result<MscclAlgorithm> read(std::string_view xml) {
    const auto length = static_cast<int>(xml.size());
    const bool fine = XML_Parse(parser_.get(), xml.data(), length, 1) == XML_STATUS_OK;
    if (!fine && error_.empty()) {
      wrong(std::string("the XML is broken: ") + XML_ErrorString(XML_GetErrorCode(parser_.get())));
    }
    if (error_.empty()) check_gpus();
    if (!error_.empty()) return Status(Code::invalid_argument, error_);
    return std::move(algorithm_);
  }

 private:
  static Reader& self_of(void* user) { return *static_cast<Reader*>(user); }
  static void on_start(void* user, const char* name, const char** attributes) {
    self_of(user).start(name, attributes);
  }
  static void on_end(void* user, const char*) { --self_of(user).depth_; }
  // Entities could grow without bound, and no algorithm needs them.
  static void on_doctype(void* user, const char*, const char*, const char*, int) {
    self_of(user).wrong("a document type is not allowed; remove <!DOCTYPE ...>");
  }

  size_t line() const { return XML_GetCurrentLineNumber(parser_.get()); }

  void wrong(const std::string& what) { wrong_at(line(), what); }
  void wrong_at(size_t line, const std::string& what) {
    if (error_.empty()) error_ = "line " + std::to_string(line) + ": " + what;
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  void start(std::string_view name, const char** pairs) {
    constexpr std::array kElements{"algo", "gpu", "tb", "step"};
    if (!error_.empty()) return;
    if (depth_ >= kElements.size()) {
      return wrong("<step> has no elements, and one stands in it");
    }
    if (name != kElements[depth_]) {
      return wrong("the element " + quoted(name) + " stands where <" + kElements[depth_] +
                   "> must");
    }
    Attributes attributes(kElements[depth_], pairs);
    switch (depth_++) {
      case 0:
        start_algorithm(attributes);
        break;
      case 1:
        start_gpu(attributes);
        break;
      case 2:
        start_block(attributes);
        break;
      default:
        start_step(attributes);
    }
    if (!attributes.error().empty()) wrong(attributes.error());
  }

  void start_algorithm(Attributes& attributes) {
    algorithm_.name = printable_text(attributes.word("name"), 60);
    algorithm_.collective = attributes.choice("coll", kCollNames);
    algorithm_.in_place = attributes.number("inplace", 0, 1) == 1;
    algorithm_.chunks = attributes.count("nchunksperloop", 1, kMscclChunksMax);
    gpu_count_ = attributes.index("ngpus", 1, kPlanTextRanksMax);
    const uint64_t blocks = static_cast<uint64_t>(gpu_count_);
    if (has_blocks() && algorithm_.chunks % blocks != 0) {
      attributes.wrong(
          "nchunksperloop is no multiple of ngpus, and each GPU has a block of chunks");
    }
    if (attributes.error().empty()) algorithm_.gpus.resize(blocks);
    is_there_.resize(blocks);
  }

  bool has_blocks() const {
    const Collective collective = algorithm_.collective;
    return collective != Collective::all_reduce && collective != Collective::broadcast &&
           collective != Collective::reduce;
  }

  void start_gpu(Attributes& attributes) {
    gpu_id_ = attributes.index("id", 0, gpu_count_ - 1);
    const auto index = static_cast<size_t>(gpu_id_);
    if (is_there_[index]) attributes.wrong("GPU " + std::to_string(gpu_id_) + " stands twice");
    is_there_[index] = true;
    gpu_ = &algorithm_.gpus[index];
    gpu_->scratch_chunks = attributes.count("s_chunks", 0, kMscclChunksMax);
    chunks_ += 2 * uint64_t{algorithm_.chunks} + gpu_->scratch_chunks;
    if (chunks_ > kMscclCellsMax) {
      attributes.wrong("the buffers have more than " + std::to_string(kMscclCellsMax) + " chunks");
    }
  }

  void start_block(Attributes& attributes) {
    if (gpu_->blocks.size() == kMscclBlocksMax) {
      return attributes.wrong("the GPU has more than " + std::to_string(kMscclBlocksMax) +
                              " thread blocks");
    }
    MscclBlock block;
    block.line = line();
    block.id = attributes.count("id", 0, std::numeric_limits<int32_t>::max());
    block.send_to = attributes.index("send", -1, gpu_count_ - 1);
    block.receive_from = attributes.index("recv", -1, gpu_count_ - 1);
    block.channel = attributes.index("chan", -1, std::numeric_limits<int32_t>::max());
    if (block.send_to == gpu_id_ || block.receive_from == gpu_id_) {
      attributes.wrong("GPU " + std::to_string(gpu_id_) + " has itself as peer; use cpy or re");
    }
    gpu_->blocks.push_back(std::move(block));
  }

  void start_step(Attributes& attributes) {
    MscclBlock& block = gpu_->blocks.back();
    MscclStep step;
    step.line = line();
    const auto place = static_cast<int64_t>(block.steps.size());
    if (attributes.number("s", 0, kMscclMovesMax) != place) {
      attributes.wrong("step " + std::to_string(place) + " must stand here (attribute s)");
    }
    step.type = attributes.choice("type", kTypeWords);
    step.count = step.type == MscclType::nop ? 0 : attributes.count("cnt", 1, kMscclChunksMax);
    if (has_source(step.type)) step.source = chunks(attributes, "srcbuf", "srcoff");
    if (has_target(step.type)) step.target = chunks(attributes, "dstbuf", "dstoff");
    if (sends(step.type) && block.send_to < 0) {
      attributes.wrong("it sends, and its <tb> has no peer (attribute send)");
    }
    if (receives(step.type) && block.receive_from < 0) {
      attributes.wrong("it receives, and its <tb> has no peer (attribute recv)");
    }
    read_wait(attributes, step);
    moved_ += step.count;
    if (moved_ > kMscclMovesMax) {
      attributes.wrong("the steps move more than " + std::to_string(kMscclMovesMax) + " chunks");
    }
    block.steps.push_back(step);
  }

  static MscclChunks chunks(Attributes& attributes, const char* buffer, const char* first) {
    return {attributes.choice(buffer, kBufferNames),
            attributes.count(first, 0, kMscclChunksMax - 1)};
  }

  // `depid` is the id of a thread block until resolve_waits().
  static void read_wait(Attributes& attributes, MscclStep& step) {
    const int32_t block = attributes.index("depid", -1, std::numeric_limits<int32_t>::max());
    const int32_t number = attributes.index("deps", -1, std::numeric_limits<int32_t>::max());
    step.is_waited_for = attributes.number("hasdep", 0, 1) == 1;
    if (block < 0) return;
    if (number < 0) return attributes.wrong("depid names a thread block, and deps no step of it");
    step.waits_for = {static_cast<uint32_t>(block), static_cast<uint32_t>(number)};
  }

  void check_gpus() {
    for (size_t gpu = 0; gpu < algorithm_.gpus.size(); ++gpu) {
      if (!is_there_[gpu]) {
        wrong("there are " + std::to_string(gpu_count_) + " GPUs (attribute ngpus), and no <gpu>" +
              " with id " + std::to_string(gpu));
        return;
      }
      resolve_waits(algorithm_.gpus[gpu]);
    }
  }

  void resolve_waits(MscclGpu& gpu) {
    std::vector<std::pair<uint32_t, uint32_t>> places;  // by id
    for (uint32_t place = 0; place < gpu.blocks.size(); ++place) {
      places.emplace_back(gpu.blocks[place].id, place);
    }
    std::ranges::sort(places);
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i].first != places[i - 1].first) continue;
      return wrong_at(gpu.blocks[places[i].second].line,
                      "<tb>: the GPU has two with id " + std::to_string(places[i].first));
    }
    for (MscclBlock& block : gpu.blocks) {
      for (MscclStep& step : block.steps) {
        if (step.waits_for) resolve_wait(gpu, places, step);
      }
    }
  }

  void resolve_wait(const MscclGpu& gpu, const std::vector<std::pair<uint32_t, uint32_t>>& places,
                    MscclStep& step) {
    const auto [id, number] = *step.waits_for;
    const auto found = std::ranges::lower_bound(places, std::pair(id, uint32_t{0}));
    if (found == places.end() || found->first != id) {
      return wrong_at(step.line,
                      "<step>: depid=" + std::to_string(id) + " is no thread block of this GPU");
    }
    const std::vector<MscclStep>& steps = gpu.blocks[found->second].steps;
    if (number >= steps.size()) {
      return wrong_at(step.line, "<step>: deps=" + std::to_string(number) +
                                     " is no step of thread block " + std::to_string(id));
    }
    const bool ends = std::any_of(steps.begin() + number, steps.end(),
                                  [](const MscclStep& each) { return each.is_waited_for; });
    if (!ends) {
      return wrong_at(step.line, "<step>: it waits for step " + std::to_string(number) +
                                     " of thread block " + std::to_string(id) +
                                     ", which does not tell its end; set hasdep=\"1\" there");
    }
    step.waits_for->block = found->second;
  }

  std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser> parser_;
  MscclAlgorithm algorithm_;
  int32_t gpu_count_ = 0;
  std::vector<bool> is_there_;  // by GPU
  int32_t gpu_id_ = 0;
  MscclGpu* gpu_ = nullptr;
  size_t depth_ = 0;
  uint64_t chunks_ = 0;  // of all buffers so far
  uint64_t moved_ = 0;   // by all steps so far
  std::string error_;
};

}  // namespace

bool sends(MscclType type) {
  return type == MscclType::send || type == MscclType::receive_copy_send ||
         type == MscclType::receive_reduce_send || type == MscclType::receive_reduce_copy_send;
}

bool receives(MscclType type) {
  return type == MscclType::receive || type == MscclType::receive_copy_send ||
         type == MscclType::receive_reduce_send || type == MscclType::receive_reduce_copy ||
         type == MscclType::receive_reduce_copy_send;
}

bool has_source(MscclType type) {
  return type != MscclType::receive && type != MscclType::receive_copy_send &&
         type != MscclType::nop;
}

bool has_target(MscclType type) {
  return type != MscclType::send && type != MscclType::receive_reduce_send &&
         type != MscclType::nop;
}

Result<MscclAlgorithm> parse_msccl(std::string_view xml) {
  if (xml.size() > kPlanTextBytesMax) {
    return Status(Code::invalid_argument,
                  "line 1: the text has more than " + std::to_string(kPlanTextBytesMax) + " bytes");
  }
  return Reader().read(xml);
}

}  // namespace r2ccl::tools
