# make install PREFIX=…: the binary, its front-end links, and where it finds the libtorch and Arrow it was built with.
include(GNUInstallDirs)
set_target_properties(hone_main PROPERTIES INSTALL_RPATH "${TORCH_INSTALL_PREFIX}/lib;${arrow_lib}")
install(TARGETS hone_main RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(name swift llamafactory-cli lmf accelerate)
  install(CODE "file(CREATE_LINK hone \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/${name}\" SYMBOLIC)")
endforeach()
