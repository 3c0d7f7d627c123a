# libtorch out of a Python environment's torch wheel, as the target hone::torch. Not by find_package(Torch), which refuses a wheel made for CUDA
# on a machine without a CUDA toolkit: most machines get such a wheel, and whatever needs the toolkit is optional here.
set(HONE_PYTHON "" CACHE FILEPATH "Python whose torch is linked; empty: .venv/bin/python, else python3")
option(HONE_TORCH_CUDA "Use libtorch's CUDA part, when the wheel has one" ON)
set(python ${HONE_PYTHON})
if(NOT python)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(python python3 REQUIRED)
  endif()
endif()
execute_process(COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                OUTPUT_VARIABLE TORCH_INSTALL_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing ERROR_QUIET)
if(torch_missing)
  message(FATAL_ERROR "${python} has no torch. `make setup` installs it into .venv; -DHONE_PYTHON=… names another Python.")
endif()
set(torch_lib ${TORCH_INSTALL_PREFIX}/lib)
file(STRINGS ${TORCH_INSTALL_PREFIX}/share/cmake/Torch/TorchConfig.cmake old_strings REGEX "GLIBCXX_USE_CXX11_ABI=0")
if(old_strings)
  message(FATAL_ERROR "${TORCH_INSTALL_PREFIX} was built with the C++ library's old strings, which Debian's libraries do not use. Take torch 2.7 or newer.")
endif()

include(Wheels)
hone_import_torch(${TORCH_INSTALL_PREFIX})
set(HONE_TORCH_HAS_CUDA OFF)
if(HONE_TORCH_CUDA AND EXISTS ${torch_lib}/libtorch_cuda.so)
  set(HONE_TORCH_HAS_CUDA ON)
endif()
# "12.8": the CUDA whose runtime library the wheel brings; empty: none.
file(STRINGS ${TORCH_INSTALL_PREFIX}/version.py HONE_TORCH_CUDA_VERSION REGEX "^cuda[ :=]")
string(REGEX MATCH "[0-9]+\\.[0-9]+" HONE_TORCH_CUDA_VERSION "${HONE_TORCH_CUDA_VERSION}")
message(STATUS "libtorch: ${TORCH_INSTALL_PREFIX}, CUDA: ${HONE_TORCH_HAS_CUDA}")

# at::parallel_for is a template: in a file compiled without OpenMP it is a plain loop.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
