# Compiler settings, and the function that declares a folder of the source tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Files of one folder are compiled together, 24 at a time: each parses the same headers.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
option(CMAKE_UNITY_BUILD "Compile files of one target together" ON)
# A folder compiles without waiting for the libraries of the folders below it.
set(CMAKE_OPTIMIZE_DEPENDENCIES ON)

set(R2CCL_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined")
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Werror)
# g++ 12 sees an overlap in every `"text" + std::string` (gcc bug 105651), and an overflow in bytes
# that are appended to a vector (as in gcc bug 118521).
add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wno-unknown-warning-option)  # some of these names only g++ knows
endif()
add_compile_definitions(_GLIBCXX_ASSERTIONS)
if(NOT R2CCL_SANITIZE)
  # Hardening; tests/install/run.sh looks for each in the installed files.
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_cxx_source_compiles("#include <string.h>\nint main() { return 0; }" R2CCL_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  set(fortify -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${R2CCL_FORTIFY_3}>,3,2>)
  add_compile_options(-fstack-protector-strong "$<$<CONFIG:Release>:${fortify}>")
  add_link_options(LINKER:-z,relro LINKER:-z,now)
endif()
if(R2CCL_SANITIZE)
  # Tests are not optimized, and have only line numbers as debug information, or the compiler would
  # take three times as long. r2ccl_folder() optimizes the code under test.
  add_compile_options(-O0 -g1 -fsanitize=${R2CCL_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  # The check reads memory through a pipe, so without free descriptors it reports a bad object.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options(-fsanitize=${R2CCL_SANITIZE})
  # gcc 12 gives this warning falsely with sanitizer checks; the release build has it on.
  add_compile_options(-Wno-maybe-uninitialized)
  if(R2CCL_SANITIZE MATCHES thread)
    add_compile_options(-Wno-tsan)
  endif()
endif()

# r2ccl_folder(FOLDER [WITH folder] [DEPS folder...]): a static library of the *.cc files in FOLDER
# (not of those below it), named after it: src/protocol/wire is r2ccl_protocol_wire. Its *_test.cc
# files go into the test program of its layer, here protocol_test. WITH names a folder declared
# before, whose library then holds these files too; all files of that library compile together.
function(r2ccl_library_name folder result)
  string(REGEX REPLACE "^src/" "" name ${folder})
  string(REPLACE "/" "_" name ${name})
  set(${result} r2ccl_${name} PARENT_SCOPE)
endfunction()

function(r2ccl_folder folder)
  cmake_parse_arguments(ARG "" "WITH" "DEPS" ${ARGN})
  r2ccl_library_name(${folder} target)
  set(home ${target})  # the library that holds the files
  set(scope PUBLIC)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(ARG_WITH)
    r2ccl_library_name(${ARG_WITH} home)
    target_sources(${home} PRIVATE ${sources})
    set_target_properties(${home} PROPERTIES UNITY_BUILD_BATCH_SIZE 0)  # no limit
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${home})
  elseif(sources)
    add_library(${target} STATIC ${sources})
    if(R2CCL_SANITIZE)
      target_compile_options(${target} PRIVATE -O1)  # after -O0, so this one counts
    elseif(folder MATCHES "^(tools|src/testing)")
      # Commands spend their time in the library, and tests in the code under test. -O1 compiles them
      # in two thirds of the time that -O3 takes.
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  set_target_properties(${target} PROPERTIES R2CCL_HOME ${home})
  target_include_directories(${home} ${scope} ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src
                             ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${home} ${scope} Threads::Threads PkgConfig::SODIUM)
  foreach(dep ${ARG_DEPS})
    r2ccl_library_name(${dep} library)
    get_target_property(library_home ${library} R2CCL_HOME)
    if(NOT library_home STREQUAL home)
      target_link_libraries(${home} ${scope} ${library})
    endif()
  endforeach()
  string(REGEX REPLACE "^(src/)?([^/]*).*" "\\2" layer ${folder})
  if(tests)
    set_property(GLOBAL APPEND PROPERTY R2CCL_TESTED_LAYERS ${layer})
    set_property(GLOBAL APPEND PROPERTY R2CCL_TESTS_${layer} ${tests})
  endif()
  set_property(GLOBAL APPEND PROPERTY R2CCL_LIBRARIES_${layer} ${target})
endfunction()
