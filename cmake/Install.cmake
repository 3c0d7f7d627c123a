# make install PREFIX=…: the program with its front-end links, and libhone: headers, libraries and a CMake package (find_package(hone)).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(libraries ${CMAKE_INSTALL_LIBDIR}/hone)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/hone)

# The program finds libtorch and Arrow next to itself (the component libtorch below), else where it was built. A build folder may move together
# with the environment that its libtorch is in.
file(RELATIVE_PATH torch_from_bin ${CMAKE_BINARY_DIR}/bin ${TORCH_INSTALL_PREFIX}/lib)
set_target_properties(hone_main PROPERTIES
  BUILD_RPATH "\$ORIGIN/${torch_from_bin}"
  INSTALL_RPATH "\$ORIGIN/../${libraries}/torch/lib;\$ORIGIN/../${libraries}/pyarrow;${TORCH_INSTALL_PREFIX}/lib;${arrow_lib}")
install(TARGETS hone_main RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(name swift megatron llamafactory-cli lmf accelerate)
  install(CODE "file(CREATE_LINK hone \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/${name}\" SYMBOLIC)")
endforeach()

# make install BUNDLE=1: libtorch and Arrow too, laid out as in site-packages, which their own search paths expect. The prefix can then be moved.
install(DIRECTORY ${TORCH_INSTALL_PREFIX}/lib DESTINATION ${libraries}/torch COMPONENT libtorch EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.so*" PATTERN "libtorch_python*" EXCLUDE PATTERN "libshm*" EXCLUDE PATTERN "*_test.so" EXCLUDE)
file(GLOB torch_companions ${TORCH_INSTALL_PREFIX}/../torch.libs ${TORCH_INSTALL_PREFIX}/../nvidia)
install(DIRECTORY ${torch_companions} DESTINATION ${libraries} COMPONENT libtorch EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.so*")
if(HONE_WITH_ARROW)
  install(FILES ${arrow_lib}/libparquet.so.${arrow_so} ${arrow_lib}/libarrow.so.${arrow_so} DESTINATION ${libraries}/pyarrow
          COMPONENT libtorch EXCLUDE_FROM_ALL)
endif()

# libhone: every component below the command line.
get_property(components GLOBAL PROPERTY hone_components)
list(REMOVE_ITEM components cli)
foreach(name ${components})
  set_target_properties(hone_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS hone_${name} EXPORT hone ARCHIVE DESTINATION ${libraries})
  install(DIRECTORY src/hone/${name} DESTINATION include/hone FILES_MATCHING PATTERN "*.h" PATTERN "pch.h" EXCLUDE)
endforeach()
foreach(part hone_net hone_part_arrow hone_part_audio hone_part_cairo hone_part_curl hone_part_images hone_part_tiff hone_part_video)
  if(TARGET ${part})
    install(TARGETS ${part} EXPORT hone)
  endif()
endforeach()
install(TARGETS hone EXPORT hone)
install(EXPORT hone NAMESPACE hone:: FILE honeTargets.cmake DESTINATION ${package})
hone_torch_version(${TORCH_INSTALL_PREFIX} torch_version)
configure_package_config_file(cmake/honeConfig.cmake.in ${CMAKE_BINARY_DIR}/honeConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/honeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/honeConfig.cmake ${CMAKE_BINARY_DIR}/honeConfigVersion.cmake cmake/Wheels.cmake DESTINATION ${package})
