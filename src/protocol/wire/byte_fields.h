// Members of a struct as bytes, one after another: one list of members serves the writer, the
// reader and the size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "protocol/wire/byte_io.h"

namespace r2ccl {

// An enum and a truth value take a byte, a strong id and a number their own size.
template <typename T>
constexpr auto as_number(T value) {
  if constexpr (requires { value.value(); }) {
    return static_cast<std::make_unsigned_t<typename T::Value>>(value.value());
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    return static_cast<uint8_t>(value);
  } else {
    return value;
  }
}

template <typename Struct, typename... Members>
void put_members(ByteWriter& out, const Struct& from,
                 const std::tuple<Members Struct::*...>& members) {
  std::apply([&](auto... member) { (out.put(as_number(from.*member)), ...); }, members);
}

template <typename Struct, typename... Members>
void get_members(ByteReader& in, Struct& into, const std::tuple<Members Struct::*...>& members) {
  const auto get = [&]<typename T>(T& member) {
    const auto number = in.get<decltype(as_number(T()))>();
    if constexpr (requires { member.value(); }) {
      member = T(static_cast<typename T::Value>(number));
    } else {
      member = static_cast<T>(number);
    }
  };
  std::apply([&](auto... member) { (get(into.*member), ...); }, members);
}

template <typename Struct, typename... Members>
constexpr size_t bytes_of(const std::tuple<Members Struct::*...>&) {
  return (sizeof(as_number(Members())) + ...);
}

}  // namespace r2ccl
