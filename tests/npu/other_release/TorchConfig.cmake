# libtorch's CPU part, which is all that the emulated CANN needs; the wheel's own file asks for a CUDA toolkit when torch was built for CUDA.
set(TORCH_INSTALL_PREFIX $ENV{TORCH_INSTALL_PREFIX})
set(TORCH_INCLUDE_DIRS ${TORCH_INSTALL_PREFIX}/include ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include)
set(TORCH_CXX_FLAGS -D_GLIBCXX_USE_CXX11_ABI=1)
add_library(torch INTERFACE IMPORTED)
target_include_directories(torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(torch INTERFACE ${TORCH_INSTALL_PREFIX}/lib/libtorch_cpu.so ${TORCH_INSTALL_PREFIX}/lib/libc10.so)
set(Torch_FOUND TRUE)
