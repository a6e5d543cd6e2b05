#include "layout.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "report.h"

namespace r2ccl::emulated {

uint64_t read(const void* object, const Field& field) {
  uint64_t value = 0;
  if (!field.exists()) return 0;
  if (field.bytes > sizeof value) fail("a field is no number");
  std::memcpy(&value, static_cast<const char*>(object) + field.offset, field.bytes);
  if (field.bits != 0) value = value >> field.bit & ((uint64_t{1} << field.bits) - 1);
  return value;
}

int64_t read_signed(const void* object, const Field& field) {
  const uint64_t value = read(object, field);
  if (field.bytes == 4) return static_cast<int32_t>(value);
  return static_cast<int64_t>(value);
}

char* read_pointer(const void* object, const Field& field) {
  return reinterpret_cast<char*>(read(object, field));
}

char* address(const void* object, const Field& field) {
  return const_cast<char*>(static_cast<const char*>(object)) + field.offset;
}

Layout::Layout(const std::string& path) {
  std::ifstream file(path);
  std::string kind;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    words >> kind >> name;
    if (kind == "field") {
      Field& field = fields_[name];
      words >> field.offset >> field.bytes >> field.bit >> field.bits;
    } else if (kind == "size") {
      words >> sizes_[name];
    } else if (kind == "constant") {
      words >> constants_[name];
    }
    if (!words) fail(path + ": cannot read the line: " + line);
  }
  if (fields_.empty()) fail("there is no layout in " + path);
}

namespace {

template <typename T>
const T& found(const std::map<std::string, T>& values, const std::string& name) {
  const auto at = values.find(name);
  if (at == values.end()) fail("the layout of this NCCL lacks " + name);
  return at->second;
}

}  // namespace

Field Layout::field(const std::string& name) const {
  return found(fields_, name);
}

size_t Layout::size(const std::string& name) const {
  return found(sizes_, name);
}

int64_t Layout::constant(const std::string& name) const {
  return found(constants_, name);
}

Field Layout::optional_field(const std::string& name) const {
  const auto at = fields_.find(name);
  return at == fields_.end() ? Field{} : at->second;
}

}  // namespace r2ccl::emulated
