# Headers, libraries (the engine's and, beside it, lcp/'s), man page, pkg-config and CMake package files. Headers are the same without PULLBACK_IO: what reads and writes
# files is declared then, and missing from the library.
include(CMakePackageConfigHelpers)

install(TARGETS pullback_static EXPORT PullbackStatic ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pullback_shared EXPORT PullbackShared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pullback_lcp_static EXPORT PullbackLcpStatic ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pullback_lcp_shared EXPORT PullbackLcpShared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/pullback lcp/include/pullback DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE ${PROJECT_BINARY_DIR}/pullback.cdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(PULLBACK_IO AND EXISTS ${PROJECT_SOURCE_DIR}/man/pullback.1)
  install(FILES man/pullback.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# From where the file lies: right for every prefix that `cmake --install --prefix` or a package is given.
set(PULLBACK_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  file(RELATIVE_PATH PULLBACK_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  set(PULLBACK_PC_PREFIX "\${pcfiledir}/${PULLBACK_PC_PREFIX}")
endif()
foreach(library pullback pullback-lcp)
  configure_file(cmake/${library}.pc.in ${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Pullback)
foreach(kind Static Shared LcpStatic LcpShared)
  install(EXPORT Pullback${kind} NAMESPACE Pullback:: FILE Pullback${kind}.cmake DESTINATION ${package_dir})
endforeach()
configure_package_config_file(cmake/PullbackConfig.cmake.in PullbackConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(PullbackConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/PullbackConfig.cmake ${PROJECT_BINARY_DIR}/PullbackConfigVersion.cmake DESTINATION ${package_dir})
