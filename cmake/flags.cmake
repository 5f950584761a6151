# pullback_flags: what every source of the project is compiled with. Not installed, not inherited by users.
# pullback_inside: the same for the library and what looks into it (tests, benchmarks). The program and the examples see public
# headers only.
add_library(pullback_flags INTERFACE)
add_library(pullback_inside INTERFACE)
target_link_libraries(pullback_inside INTERFACE pullback_flags)
target_include_directories(pullback_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_include_directories(pullback_inside INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_link_libraries(pullback_inside INTERFACE ${PULLBACK_LIBRARIES})
# Structs within structs by their type alone (src/eval/names.h): gcc and clang both take them.
target_compile_options(pullback_inside INTERFACE -fms-extensions $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-microsoft-anon-tag>)
foreach(library ${PULLBACK_ABSENT})
  target_include_directories(pullback_inside BEFORE INTERFACE ${PROJECT_SOURCE_DIR}/python/without/${library})
endforeach()
# The same bits whatever the processor and the optimiser: no contraction into fused multiply-adds, no fast-math.
# No errno from sqrt and no trapping: nobody looks at either.
# Not -Wpedantic: it objects to const arrays as parameters, which C2X allows. Public headers are checked pedantically
# (tools/check_headers.py).
target_compile_options(pullback_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wpointer-arith -Wwrite-strings
  $<$<C_COMPILER_ID:GNU>:-Wno-clobbered>
  $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-gnu-imaginary-constant -Wno-unknown-pragmas>)
target_compile_definitions(pullback_flags INTERFACE _GNU_SOURCE)
if(APPLE)  # untried: newlocale and strtod_l are in a header of their own
  target_compile_options(pullback_flags INTERFACE "SHELL:-include xlocale.h")
endif()
# The same files wherever the sources lie (tools/first_hour.py compares two builds), whether they are named from the root or, as by
# ccache, from the build folder; of several that match the last counts. gcov looks its sources up by their paths.
if(NOT PULLBACK_COVERAGE)
  file(RELATIVE_PATH up ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  target_compile_options(pullback_flags INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
                                                  -ffile-prefix-map=${up}= -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)
endif()
# Of the library's own sources: what is const stays so (src/base/own.h is the one way around). Tests and files of formats may cast.
set(PULLBACK_SOURCE_OPTIONS -Wcast-qual -Werror=cast-qual)
if(PULLBACK_MUTATE)
  target_compile_definitions(pullback_flags INTERFACE PULLBACK_MUTATE)
endif()
if(PULLBACK_VALIDATE)
  target_compile_definitions(pullback_flags INTERFACE PULLBACK_VALIDATE)
endif()
if(PULLBACK_WERROR)
  target_compile_options(pullback_flags INTERFACE -Werror $<$<C_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>)  # that one guesses
endif()
if(PULLBACK_SANITIZE)
  target_compile_options(pullback_flags INTERFACE -fsanitize=${PULLBACK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(pullback_flags INTERFACE -fsanitize=${PULLBACK_SANITIZE})
  if(PULLBACK_SANITIZE_BUT)
    target_compile_options(pullback_flags INTERFACE -fno-sanitize=${PULLBACK_SANITIZE_BUT})
  endif()
endif()
if(PULLBACK_COVERAGE)
  target_compile_options(pullback_flags INTERFACE --coverage)
  target_link_options(pullback_flags INTERFACE --coverage)
endif()
if(PULLBACK_FUZZ)  # instrument the library; the targets themselves bring libFuzzer's main
  target_compile_options(pullback_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
