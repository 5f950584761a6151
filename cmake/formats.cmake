# PULLBACK_IO: the folder io/ (MJCF, JSON, NPY and NPZ, meshes) with the libraries it reads them by, and what stands on it.
set(PULLBACK_FORMATS "")  # libraries
set(PULLBACK_PC_REQUIRES "")
if(PULLBACK_IO)
  find_package(EXPAT REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  set(PULLBACK_FORMATS EXPAT::EXPAT PkgConfig::JANSSON ZLIB::ZLIB)
  set(PULLBACK_PC_REQUIRES "expat jansson zlib")
endif()

# Of a list of sources those that can be built: without PULLBACK_IO the ones that name nothing of it.
function(pullback_buildable variable)
  set(kept "")
  foreach(source ${${variable}})
    set(named "")
    if(NOT PULLBACK_IO)
      file(STRINGS ${source} named LIMIT_COUNT 1 REGEX
           "\"io/|pb(Array|Arrays|Task|Loss|VtuWriter|Glb|File|Mjcf)_|pbModel_Load|pbSpec_(Load|Parse)|pbDeformable_Load|pbMesh_(Load|Parse|Save)|\"hostile\\.h\"")
    endif()
    if(NOT named)
      list(APPEND kept ${source})
    endif()
  endforeach()
  set(${variable} ${kept} PARENT_SCOPE)
endfunction()
