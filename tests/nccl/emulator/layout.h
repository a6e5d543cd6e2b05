// The layout of NCCL's and CUDA's structs, from a text file that the test runner makes of the debug
// information in NCCL's library. So one build of the emulator serves many versions of NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace r2ccl::emulated {

// A member of a struct; `bits` is not 0 for a bit field, which begins at `bit` of its bytes.
struct Field {
  size_t offset = 0;
  size_t bytes = 0;
  unsigned bit = 0;
  unsigned bits = 0;

  bool exists() const { return bytes != 0; }
};

// Returns the number or pointer in a field; 0 of a field that this version does not have.
uint64_t read(const void* object, const Field& field);
int64_t read_signed(const void* object, const Field& field);
char* read_pointer(const void* object, const Field& field);
char* address(const void* object, const Field& field);

class Layout {
 public:
  // Reads lines "field STRUCT.MEMBER OFFSET BYTES BIT BITS", "size STRUCT BYTES" and
  // "constant NAME VALUE". Ends the process if there is no such file.
  explicit Layout(const std::string& path);

  // These end the process if the name is missing.
  Field field(const std::string& name) const;
  size_t size(const std::string& name) const;
  int64_t constant(const std::string& name) const;

  // Returns a field that only some versions of NCCL have.
  Field optional_field(const std::string& name) const;
  bool has_struct(const std::string& name) const { return sizes_.count(name) != 0; }

 private:
  std::map<std::string, Field> fields_;
  std::map<std::string, size_t> sizes_;
  std::map<std::string, int64_t> constants_;
};

}  // namespace r2ccl::emulated
