# Numerical kernels are written once in the number type (src/number/number.h) and compiled once per variant:
#   _r  double, for any x86-64 (or whatever the machine is)      _c  _Complex double, for derivatives to rounding
#   _v3 double, x86-64-v3 (AVX2)                                  _v4 double, x86-64-v4 (AVX-512)
# Adjoints (*_adjoint.c) are written for double with cotangents of type lane (src/eval/adjoint.h): compiled for one
# cotangent (_one_r) and for some side by side (_lanes_r), and both again as _one_v3, _lanes_v3, _one_v4, _lanes_v4.
# Terms (src/bodies/*/) have value and pullback in one file: they are compiled as adjoints are, and as _c without the pullback.
# Which are there is told to the other sources by PB_HAVE_V3 and PB_HAVE_V4; they choose at run time.

# Whole folders of kernels, and in other folders *_kernel.c, *_adjoint.c, and the derived constants.
set(PULLBACK_KERNEL_PATTERN "/src/(math|geometry|multibody|contact|bodies|solve)/[^/]*\\.c$|/src/bodies/[a-z]+/[^/]*\\.c$|/src/linalg/(lu|tree_ldl)\\.c$|/src/(linalg|energy|sparse|barrier|deform|step|impact|couple)/[^/]*_(kernel|adjoint)\\.c$|/src/compile/setconst(_[a-z]+)?\\.c$")

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
  target_link_libraries(${name} PRIVATE pullback_inside)
  target_compile_options(${name} PRIVATE ${ARGN})
endfunction()

function(pullback_add_kernels sources objects_out)
  set(objects "")
  set(adjoints ${sources})
  set(terms ${sources})
  list(FILTER terms INCLUDE REGEX "/src/bodies/[a-z]+/")
  list(FILTER adjoints INCLUDE REGEX "_adjoint\\.c$|/src/bodies/[a-z]+/")
  list(FILTER sources EXCLUDE REGEX "_adjoint\\.c$|/src/bodies/[a-z]+/")
  macro(variant name files)
    if(NOT "${files}" STREQUAL "")
      pullback_add_variant(${name} "${files}" ${ARGN})
      list(APPEND objects $<TARGET_OBJECTS:${name}>)
    endif()
  endmacro()

  variant(pullback_real "${sources}")
  # Real parts must have the bits of the plain program, or derivatives take other branches than it did: products by the plain formulas
  # (no product of two imaginary parts counts), quotients by Smith's.
  check_c_compiler_flag(-fcx-fortran-rules PULLBACK_CX_FORTRAN)
  set(complex ${sources} ${terms})
  list(FILTER complex EXCLUDE REGEX "/src/sparse/|/src/linalg/product_kernel\\.c$")
  variant(pullback_complex "${complex}" -DPB_NUMBER_COMPLEX $<$<BOOL:${PULLBACK_CX_FORTRAN}>:-fcx-fortran-rules>)
  # Second derivatives: a cotangent and its derivative are two doubles. What has none is not there.
  set(second ${adjoints} ${terms})
  list(REMOVE_DUPLICATES second)
  list(FILTER second EXCLUDE REGEX "/impact/|/solve/|/law_adjoint|/mesh_(map|bar)_adjoint|/fluid_adjoint|/step/(pairs|jacobian|observe)")
  variant(pullback_second "${second}" -DPB_NUMBER_COMPLEX -DPB_LANES=2 $<$<BOOL:${PULLBACK_CX_FORTRAN}>:-fcx-fortran-rules>)
  # Lanes fill one register; they are passed within one variant only, whatever gcc notes of their ABI.
  set(abi $<$<C_COMPILER_ID:GNU>:-Wno-psabi>)
  variant(pullback_adjoint "${adjoints}" ${abi})
  variant(pullback_adjoint_lanes "${adjoints}" -DPB_LANES=2 ${abi})
  if(PULLBACK_WIDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "/setconst(_[a-z]+)?\\.c$")  # runs once per model
    # GCC 12 fuses products with alternating sums (vfmaddsub) in spite of -ffp-contract=off when it vectorises straight code.
    set(separate $<$<C_COMPILER_ID:GNU>:-fno-tree-slp-vectorize>)
    foreach(level 3 4)
      math(EXPR lanes "4 << (${level} - 3)")
      set(march -march=x86-64-v${level})
      if(level EQUAL 4)  # scheduled for a processor that has these registers: some 5 % of a step
        list(APPEND march -mtune=icelake-server)
      endif()
      check_c_compiler_flag(-march=x86-64-v${level} PULLBACK_CAN_V${level})
      if(PULLBACK_CAN_V${level})
        variant(pullback_v${level} "${sources}" ${march} ${separate} -DPB_NUMBER_SUFFIX=_v${level})
        variant(pullback_adjoint_v${level} "${adjoints}" ${march} ${separate} -DPB_NUMBER_SUFFIX=_v${level})
        variant(pullback_adjoint_lanes_v${level} "${adjoints}" ${march} ${separate} -DPB_LANES=${lanes} ${abi} -DPB_NUMBER_SUFFIX=_v${level})
        target_compile_definitions(pullback_plain PRIVATE PB_HAVE_V${level})
      endif()
    endforeach()
  endif()
  set(${objects_out} ${objects} PARENT_SCOPE)
endfunction()
