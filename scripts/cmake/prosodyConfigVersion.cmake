# Versions of one minor number fit each other until 1.0, of one major number from then on.
set(PACKAGE_VERSION "@VERSION@")
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" prosody_have "${PACKAGE_VERSION}")
set(prosody_major "${CMAKE_MATCH_1}")
set(prosody_minor "${CMAKE_MATCH_2}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION
   OR (PACKAGE_FIND_VERSION AND NOT PACKAGE_FIND_VERSION_MAJOR EQUAL prosody_major)
   OR (PACKAGE_FIND_VERSION_COUNT GREATER 1 AND prosody_major EQUAL 0
       AND NOT PACKAGE_FIND_VERSION_MINOR EQUAL prosody_minor))
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
unset(prosody_have)
unset(prosody_major)
unset(prosody_minor)
