# What `cmake --install` puts down: the program, the libraries, the public headers, a CMake package and a
# pkg-config file. Libraries are static; both files name the third-party ones that these are linked with.
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY LUMINAL_MODULES)
list(TRANSFORM modules PREPEND luminal_ OUTPUT_VARIABLE targets)
install(TARGETS ${targets} luminal_all EXPORT luminalTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/luminal" DESTINATION include FILES_MATCHING PATTERN "*.h")
# The data of the ready-made training runs; the folder of src/cli/data_folder.cpp.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/data/" DESTINATION share/luminal)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION share/luminal FILES_MATCHING PATTERN "*.md")
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/luminal)
install(EXPORT luminalTargets NAMESPACE luminal:: DESTINATION ${package_folder})
configure_package_config_file(cmake/luminalConfig.cmake.in luminalConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(luminalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/luminalConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/luminalConfigVersion.cmake" DESTINATION ${package_folder})

list(TRANSFORM modules PREPEND -lluminal_)
list(JOIN modules " " LUMINAL_ARCHIVES)
get_property(link_flags GLOBAL PROPERTY LUMINAL_LINK_FLAGS)
list(REMOVE_DUPLICATES link_flags)
list(JOIN link_flags " " LUMINAL_LINK_FLAGS)
file(RELATIVE_PATH LUMINAL_PREFIX_FROM_PC "/x/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/x")
configure_file(cmake/luminal.pc.in luminal.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/luminal.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
