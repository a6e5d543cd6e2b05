#include "tools/plan/plan_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace r2ccl::tools {
namespace from_json {
namespace {

using Value = nlohmann::json;

// A plan has fewer levels. Each level of a text costs much memory.
constexpr int kLevelsMax = 32;

// The end of a translation: a value that the text form cannot have.
struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(const Value& value, const char* name, const char* wanted) {
  const std::string what =
      value.is_number() ? value.dump() : std::string("a value of type ") + value.type_name();
  throw Unfit(std::string("\"") + name + "\": " + what + " stands where " + wanted + " must");
}

const Value& field(const Value& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (found == object.end()) throw Unfit(std::string("there is no \"") + name + "\"");
  return *found;
}

std::string number_in(const Value& value, const char* name) {
  if (!value.is_number_unsigned()) refuse(value, name, "a number");
  return std::to_string(value.get<uint64_t>());
}
std::string number(const Value& object, const char* name) {
  return number_in(field(object, name), name);
}

std::string word(const Value& object, const char* name) {
  const Value& value = field(object, name);
  const bool is_word =
      value.is_string() && std::ranges::all_of(value.get<std::string>(), [](char c) {
        return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9') || c == '_';
      });
  if (!is_word) refuse(value, name, "a word");
  return value.get<std::string>();
}

const Value& list_in(const Value& value, const char* name) {
  if (!value.is_array()) refuse(value, name, "a list");
  return value;
}
const Value& list(const Value& object, const char* name) {
  return list_in(field(object, name), name);
}

bool flag(const Value& object, const char* name) {
  const Value& value = field(object, name);
  if (!value.is_boolean()) refuse(value, name, "true or false");
  return value.get<bool>();
}

// Returns " NAME 1,2,3", or nothing where the object has no such list or an empty one.
std::string numbers(const Value& object, const char* name) {
  if (!object.contains(name) || list(object, name).empty()) return "";
  std::string text;
  for (const Value& each : object[name]) text += (text.empty() ? "" : ",") + number_in(each, name);
  return std::string(" ") + name + " " + text;
}

// The same with numbers that may have decimals.
std::string costs(const Value& object, const char* name) {
  if (!object.contains(name)) return "";
  std::string text;
  for (const Value& each : list(object, name)) {
    text +=
        (text.empty() ? "" : ",") + (each.is_number_float() ? each.dump() : number_in(each, name));
  }
  return std::string(" ") + name + " " + text;
}

// The text form has the host of each rank in place of the ranks of each host.
std::string hosts(const Value& plan) {
  if (!plan.contains("hosts")) return "";
  std::map<uint64_t, size_t> host_of;
  size_t host = 0;
  size_t ranks = 0;
  for (const Value& each : list(plan, "hosts")) {
    for (const Value& rank : list_in(each, "hosts")) {
      host_of[std::stoull(number_in(rank, "hosts"))] = host;
      ++ranks;
    }
    ++host;
  }
  if (host_of.size() != ranks || (ranks > 0 && host_of.rbegin()->first != ranks - 1)) {
    throw Unfit("\"hosts\" must have each rank once");
  }
  std::string text;
  for (const auto& [rank, on] : host_of) text += (text.empty() ? "" : ",") + std::to_string(on);
  return text.empty() ? "" : " hosts " + text;
}

// Returns " view 1000:500,1000/..." without the short forms of equal neighbours.
std::string view(const Value& plan) {
  if (!plan.contains("view")) return "";
  std::string text;
  for (const Value& host : list(plan, "view")) {
    text += text.empty() ? "" : "/";
    for (size_t nic = 0; nic < list_in(host, "view").size(); ++nic) {
      text +=
          (nic == 0 ? "" : ",") + number(host[nic], "send") + ":" + number(host[nic], "receive");
    }
  }
  return text.empty() ? "" : " view " + text;
}

std::string header(const Value& plan) {
  std::string text = "r2ccl-plan 1";
  for (const char* const name : {"collective", "algorithm", "type", "op"}) {
    text += std::string(" ") + name + " " + word(plan, name);
  }
  for (const char* const name : {"ranks", "root", "count"}) {
    text += std::string(" ") + name + " " + number(plan, name);
  }
  if (plan.contains("reproducible") && flag(plan, "reproducible")) text += " reproducible";
  text += hosts(plan) + view(plan);
  return text + costs(plan, "memory_costs") + costs(plan, "network_costs") + "\n";
}

std::string region(const Value& step, const char* name) {
  if (!step.contains(name)) return "";
  const Value& value = step[name];
  return std::string(" ") + name + " " + word(value, "buffer") + ":" + number(value, "offset") +
         "+" + number(value, "count");
}

std::string step_line(size_t index, const Value& step) {
  std::string text = std::to_string(index) + " " + word(step, "kind");
  if (step.contains("peer")) text += " peer " + number(step, "peer");
  text += region(step, "source") + region(step, "target") + region(step, "addend");
  if (step.contains("operands")) text += " operands " + word(step, "operands");
  if (step.contains("last_reduction") && flag(step, "last_reduction")) text += " last_reduction";
  return text + numbers(step, "after") + "\n";
}

std::string part_text(const Value& part) {
  const Value& steps = list(part, "steps");
  std::string text = "rank " + number(part, "rank") + " steps " + std::to_string(steps.size()) +
                     " scratch " + number(part, "scratch");
  if (const std::string wide = number(part, "wide"); wide != "0") text += " wide " + wide;
  if (flag(part, "in_place")) text += " in_place";
  for (const char* const name : {"counts", "starts", "received_counts", "received_starts"}) {
    text += numbers(part, name);
  }
  text += "\n";
  for (size_t i = 0; i < steps.size(); ++i) text += step_line(i, steps[i]);
  return text;
}

}  // namespace
}  // namespace from_json

Result<std::string> plan_text_of_json(const std::string& form) {
  using namespace from_json;
  try {
    const Value plan = Value::parse(form, [](int level, Value::parse_event_t, const Value&) {
      if (level <= kLevelsMax) return true;
      throw Unfit("values stand more than " + std::to_string(kLevelsMax) + " levels deep");
    });
    std::string text = header(plan);
    for (const Value& part : list(plan, "parts")) text += part_text(part);
    return text;
  } catch (const Value::exception& error) {
    // The library's number of the error in brackets stands first.
    const std::string text = error.what();
    return Status(Code::invalid_argument,
                  "the JSON is broken: " + text.substr(text.find("] ") + 2));
  } catch (const Unfit& error) {
    return Status(Code::invalid_argument, error.what());
  }
}

}  // namespace r2ccl::tools
