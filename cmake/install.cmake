# What `cmake --install` leaves: the library, its headers, and the package that find_package(crossflash)
# finds; its target is crossflash::crossflash, as in this build.
include(CMakePackageConfigHelpers)
install(TARGETS crossflash EXPORT crossflash)
install(DIRECTORY include/crossflash DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/crossflash)
install(EXPORT crossflash NAMESPACE crossflash:: FILE crossflash-targets.cmake
  DESTINATION ${package_dir})
file(WRITE "${PROJECT_BINARY_DIR}/crossflash-config.cmake" "\
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
include(\"\${CMAKE_CURRENT_LIST_DIR}/crossflash-targets.cmake\")
")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/crossflash-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/crossflash-config.cmake"
  "${PROJECT_BINARY_DIR}/crossflash-config-version.cmake" DESTINATION ${package_dir})
