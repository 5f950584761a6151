# What is inside and what is linked, as a bill of materials (CycloneDX 1.6, JSON) that goes with the installed files and, by PEP 770, with the
# wheel. Without a time or a number of its own: the same build has the same file.
# Tests: tests/oracle/test_sbom.py.

# A component: its name, version, licence (SPDX), who publishes it (of its CPE; "" where it has none), and further fields.
function(pullback_component list name version licence vendor)
  set(fields "\"type\": \"library\", \"bom-ref\": \"${name}\", \"name\": \"${name}\", \"version\": \"${version}\", \"licenses\": [{\"license\": {\"id\": \"${licence}\"}}]")
  if(vendor)
    string(APPEND fields ", \"cpe\": \"cpe:2.3:a:${vendor}:${name}:${version}:*:*:*:*:*:*:*\"")
  endif()
  foreach(field ${ARGN})
    string(APPEND fields ", ${field}")
  endforeach()
  set(${list} ${${list}} "    {${fields}}" PARENT_SCOPE)
endfunction()

# zlib, expat and the rest as they were found (cmake/formats.cmake); the viewer's library as it was embedded (cmake/embed.cmake).
function(pullback_write_bill file three)
  set(components "")
  if(PULLBACK_QHULL AND NOT "qhull" IN_LIST PULLBACK_ABSENT)
    pullback_component(components qhull "${QHULL_VERSION}" Qhull "")
  endif()
  if(PULLBACK_IO)
    foreach(row "libexpat|${EXPAT_VERSION_STRING}|MIT|libexpat_project|expat" "zlib|${ZLIB_VERSION_STRING}|Zlib|zlib|zlib"
                "libpng|${PNG_VERSION_STRING}|libpng-2.0|libpng|png" "jansson|${JANSSON_VERSION}|MIT|jansson_project|jansson")
      string(REPLACE "|" ";" row "${row}")
      list(POP_BACK row library)
      if(NOT library IN_LIST PULLBACK_ABSENT)
        pullback_component(components ${row})
      endif()
    endforeach()
  endif()
  if(three MATCHES "^three.js r([0-9]+), SHA-256 ([0-9a-f]+)$")
    pullback_component(components three "0.${CMAKE_MATCH_1}.0" MIT "" "\"purl\": \"pkg:npm/three@0.${CMAKE_MATCH_1}.0\""
                       "\"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"${CMAKE_MATCH_2}\"}]")
  endif()

  string(REGEX MATCHALL "\"bom-ref\": \"[a-z]+\"" parts "${components}")
  list(TRANSFORM parts REPLACE "\"bom-ref\": " "")
  list(JOIN parts ", " parts)
  list(JOIN components ",\n" components)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[{
  "bomFormat": "CycloneDX",
  "specVersion": "1.6",
  "version": 1,
  "metadata": {
    "component": {"type": "library", "bom-ref": "pullback", "name": "pullback", "version": "@PROJECT_VERSION@", "licenses": [{"license": {"id": "Apache-2.0"}}]}
  },
  "components": [
@components@
  ],
  "dependencies": [{"ref": "pullback", "dependsOn": [@parts@]}]
}
]])
endfunction()
