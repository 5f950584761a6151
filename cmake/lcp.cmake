# libpullback_lcp (lcp/): complementarity problems on dense matrices, beside the engine, which does not call it. It stands on
# libpullback for the context that errors are written to, through exported functions alone. The arena over a caller's memory and the
# assertions are inside of both: the shared library has them compiled in, unseen; the static one finds them in libpullback.a.
file(GLOB lcp_sources CONFIGURE_DEPENDS lcp/*.c)
set_source_files_properties(${lcp_sources} PROPERTIES COMPILE_OPTIONS "${PULLBACK_SOURCE_OPTIONS}")
add_library(pullback_lcp OBJECT ${lcp_sources})
target_include_directories(pullback_lcp PRIVATE ${PROJECT_SOURCE_DIR}/lcp/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_link_libraries(pullback_lcp PRIVATE pullback_flags)

set(lcp_include $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lcp/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(pullback_lcp_static STATIC $<TARGET_OBJECTS:pullback_lcp>)
add_library(Pullback::lcp_static ALIAS pullback_lcp_static)
set_target_properties(pullback_lcp_static PROPERTIES OUTPUT_NAME pullback_lcp LINKER_LANGUAGE C EXPORT_NAME lcp_static)
target_include_directories(pullback_lcp_static INTERFACE ${lcp_include})
target_link_libraries(pullback_lcp_static PUBLIC pullback_static m)

add_library(pullback_lcp_shared SHARED $<TARGET_OBJECTS:pullback_lcp> src/base/arena.c src/base/assert.c
            src/elementary/angle.c src/elementary/exponential.c)
add_library(Pullback::lcp ALIAS pullback_lcp_shared)
set_target_properties(pullback_lcp_shared PROPERTIES OUTPUT_NAME pullback_lcp LINKER_LANGUAGE C EXPORT_NAME lcp
                                                     VERSION ${PROJECT_VERSION} SOVERSION ${abi} INSTALL_RPATH "$<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>")
target_include_directories(pullback_lcp_shared PRIVATE ${PROJECT_SOURCE_DIR}/src INTERFACE ${lcp_include})
target_link_libraries(pullback_lcp_shared PUBLIC pullback_shared PRIVATE m pullback_flags)
if(NOT PULLBACK_SANITIZE AND NOT APPLE)
  target_link_options(pullback_lcp_shared PRIVATE -Wl,--no-undefined)
endif()
if(TARGET pullback_abi)  # its interface for Python, as that of the engine
  file(GLOB lcp_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lcp/include/pullback/*.h)
  list(APPEND lcp_headers ${PROJECT_SOURCE_DIR}/include/pullback/base.h)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/pullback_lcp_abi.py DEPENDS tools/abi.py tools/abi_module.py
                     tools/argument_order.txt ${lcp_headers}
                     VERBATIM COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/abi.py ${CMAKE_C_COMPILER}
                             ${PROJECT_BINARY_DIR}/pullback_lcp_abi.py ${lcp_headers})
  add_custom_target(pullback_lcp_abi DEPENDS ${PROJECT_BINARY_DIR}/pullback_lcp_abi.py)
  add_dependencies(pullback_lcp_shared pullback_lcp_abi)
endif()
