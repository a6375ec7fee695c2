# What `cmake --install` puts where, and how others find it: find_package(plait)
# gives plait::plait, pkg-config knows plait.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/plait)

install(TARGETS plait EXPORT plait-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/plait.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT plait-targets NAMESPACE plait:: DESTINATION ${package_dir})

configure_package_config_file(cmake/plait-config.cmake.in plait-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(plait-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/plait-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/plait-config-version.cmake
    DESTINATION ${package_dir})

# Relative to where plait.pc lies, so that an installed tree may be moved.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    set(pc_prefix "\${pcfiledir}/${pc_prefix}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/plait.pc.in plait.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/plait.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
