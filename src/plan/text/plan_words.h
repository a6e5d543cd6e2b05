// The words that name the values of a plan in texts.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "plan/plan.h"

namespace r2ccl {

template <typename T>
struct PlanWord {
  T value;
  const char* word;
};
template <typename T>
PlanWord(T, const char*) -> PlanWord<T>;  // clang 14 deduces it only so

inline constexpr std::array kCollectiveWords{PlanWord{Collective::all_reduce, "all_reduce"},
                                             PlanWord{Collective::broadcast, "broadcast"},
                                             PlanWord{Collective::barrier, "barrier"},
                                             PlanWord{Collective::reduce, "reduce"},
                                             PlanWord{Collective::all_gather, "all_gather"},
                                             PlanWord{Collective::reduce_scatter, "reduce_scatter"},
                                             PlanWord{Collective::gather, "gather"},
                                             PlanWord{Collective::scatter, "scatter"},
                                             PlanWord{Collective::all_to_all, "all_to_all"}};

inline constexpr std::array kAlgorithmWords{
    PlanWord{Algorithm::automatic, "automatic"},
    PlanWord{Algorithm::ring, "ring"},
    PlanWord{Algorithm::halving_doubling, "halving_doubling"},
    PlanWord{Algorithm::recursive_doubling, "recursive_doubling"},
    PlanWord{Algorithm::hierarchical, "hierarchical"},
    PlanWord{Algorithm::direct, "direct"},
    PlanWord{Algorithm::nested, "nested"},
    PlanWord{Algorithm::split, "split"},
    PlanWord{Algorithm::recursive_split, "recursive_split"},
    PlanWord{Algorithm::leaf, "leaf"},
    PlanWord{Algorithm::packed, "packed"}};

inline constexpr std::array kStepKindWords{
    PlanWord{StepKind::send, "send"}, PlanWord{StepKind::receive, "receive"},
    PlanWord{StepKind::receive_reduce, "receive_reduce"}, PlanWord{StepKind::copy, "copy"},
    PlanWord{StepKind::reduce, "reduce"}};

inline constexpr std::array kBufferWords{
    PlanWord{Buffer::input, "input"}, PlanWord{Buffer::output, "output"},
    PlanWord{Buffer::scratch, "scratch"}, PlanWord{Buffer::wide, "wide"}};

inline constexpr std::array kOperandsWords{PlanWord{Operands::own_first, "own_first"},
                                           PlanWord{Operands::received_first, "received_first"}};

template <typename T, size_t n>
constexpr const char* word_of(const std::array<PlanWord<T>, n>& words, T value) {
  for (const PlanWord<T>& each : words) {
    if (each.value == value) return each.word;
  }
  R2CCL_CHECK(false);
  return "";
}

template <typename T, size_t n>
constexpr std::optional<T> value_of(const std::array<PlanWord<T>, n>& words,
                                    std::string_view word) {
  for (const PlanWord<T>& each : words) {
    if (each.word == word) return each.value;
  }
  return std::nullopt;
}

// Returns the algorithm of a word of R2CCL_ALGO, some of which are shorter, or of kAlgorithmWords.
inline std::optional<Algorithm> algorithm_named(std::string_view word) {
  constexpr std::array kShortWords{
      PlanWord{Algorithm::automatic, "auto"}, PlanWord{Algorithm::halving_doubling, "hd"},
      PlanWord{Algorithm::recursive_doubling, "rd"}, PlanWord{Algorithm::hierarchical, "hier"}};
  const auto algorithm = value_of(kShortWords, word);
  return algorithm ? algorithm : value_of(kAlgorithmWords, word);
}

// Returns "one, two, three".
template <typename T, size_t n>
std::string list_of_words(const std::array<PlanWord<T>, n>& words) {
  std::string list;
  for (const PlanWord<T>& each : words) list += (list.empty() ? "" : ", ") + std::string(each.word);
  return list;
}

}  // namespace r2ccl
