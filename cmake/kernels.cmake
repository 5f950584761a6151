# Numerical kernels are written once in the number type (src/number/number.h) and compiled once per variant:
#   _r  double, for any x86-64 (or whatever the machine is)      _c  _Complex double, for derivatives to rounding
#   _v3 double, x86-64-v3 (AVX2)                                  _v4 double, x86-64-v4 (AVX-512)
# Which are there is told to the other sources by PB_HAVE_V3 and PB_HAVE_V4; they choose at run time.

# Whole folders of kernels, and the kernels among the sources of world/.
set(PULLBACK_KERNEL_PATTERN "/src/(math|linalg|geometry|multibody|contact|solve)/[^/]*\\.c$|/src/world/([^/]*_kernel|setconst)\\.c$")

function(pullback_split_kernels sources kernels_out plain_out)
  set(kernels ${sources})
  set(plain ${sources})
  list(FILTER kernels INCLUDE REGEX "${PULLBACK_KERNEL_PATTERN}")
  list(FILTER plain EXCLUDE REGEX "${PULLBACK_KERNEL_PATTERN}")
  set(${kernels_out} ${kernels} PARENT_SCOPE)
  set(${plain_out} ${plain} PARENT_SCOPE)
endfunction()

function(pullback_add_variant name sources)
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PRIVATE pullback_flags)
  target_compile_options(${name} PRIVATE ${ARGN})
endfunction()

function(pullback_add_kernels sources objects_out)
  set(objects "")
  if(sources)
    check_c_compiler_flag(-fcx-limited-range PULLBACK_CX_LIMITED)
    pullback_add_variant(pullback_real "${sources}")
    # The imaginary part is so small that no product of two of them counts: the plain formulas suffice.
    pullback_add_variant(pullback_complex "${sources}" -DPB_NUMBER_COMPLEX $<$<BOOL:${PULLBACK_CX_LIMITED}>:-fcx-limited-range>)
    set(objects $<TARGET_OBJECTS:pullback_real> $<TARGET_OBJECTS:pullback_complex>)
    if(PULLBACK_WIDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      foreach(level 3 4)
        check_c_compiler_flag(-march=x86-64-v${level} PULLBACK_CAN_V${level})
        if(PULLBACK_CAN_V${level})
          pullback_add_variant(pullback_v${level} "${sources}" -DPB_NUMBER_SUFFIX=_v${level} -march=x86-64-v${level})
          list(APPEND objects $<TARGET_OBJECTS:pullback_v${level}>)
          target_compile_definitions(pullback_plain PRIVATE PB_HAVE_V${level})
        endif()
      endforeach()
    endif()
  endif()
  set(${objects_out} ${objects} PARENT_SCOPE)
endfunction()
