# find_package(prosody) gives the target prosody::prosody.
get_filename_component(prosody_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET prosody::prosody)
  add_library(prosody::prosody SHARED IMPORTED)
  set_target_properties(prosody::prosody PROPERTIES
    IMPORTED_LOCATION "${prosody_prefix}/lib/libprosody.so"
    IMPORTED_SONAME "libprosody.so.1"
    # libprosody.so finds it beside itself.
    IMPORTED_LINK_DEPENDENT_LIBRARIES "${prosody_prefix}/lib/libprosody-rdkafka.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${prosody_prefix}/include")
endif()
unset(prosody_prefix)
